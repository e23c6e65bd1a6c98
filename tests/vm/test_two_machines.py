"""Two virtual machines in one private network."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_they_reach_each_other_under_their_own_addresses(new_node):
    first = new_node("debian-13", "one", kind="vm")
    second = new_node("debian-13", "two", kind="vm", beside=first)
    addresses = [node.server.address for node in (first, second)]
    assert len(set(addresses)) == 2
    for node, other in ((first, second), (second, first)):
        banner = node.run(
            f"timeout 20 bash -c 'exec 3<>/dev/tcp/{other.server.address}/22; head -n1 <&3'"
        )
        assert banner.startswith("SSH-2.0-")
        assert node.run("hostname").strip() == node.server.name
