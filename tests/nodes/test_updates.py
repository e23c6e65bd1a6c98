"""Real unattended-upgrades on local repositories: security moves, nothing else does."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from gpuferry.checking import run_checks
from gpuferry.errors import StepFailed
from gpuferry.nodes.local import machine
from gpuferry.nodes.session import SshSession, wait_for_ssh
from gpuferry.verdict import Verdict
from tests.support.node import Node, NodeMaker
from tests.support.packages import publish, versions

SECURITY = {"security-fix": "Debian-Security", "docker-ce": "Debian-Security"}
PROGRAM = "python3 -B /usr/local/lib/gpuferry/updates/main.py"
STATE = "/var/lib/gpuferry/updates.json"
ALL = ("security-fix", "docker-ce", "plain-update")


def offer(node: Node, version: str) -> None:
    """The same packages as Debian's two archives would offer them."""
    codename = node.run(". /etc/os-release; echo $VERSION_CODENAME").strip()
    release = {"Origin": "Debian", "Label": "Debian", "Codename": codename}
    publish(node, {"plain-update": version}, release=release)
    release = {"Origin": "Debian", "Label": "Debian-Security", "Codename": f"{codename}-security"}
    names = dict.fromkeys(SECURITY, version)
    publish(node, names, release=release, folder="/opt/test-security")


def state(node: Node) -> dict[str, Any]:
    node.run(PROGRAM)
    return dict(json.loads(node.run(f"cat {STATE}")))


def verdicts(node: Node, **updates: Any) -> dict[str, Verdict]:
    expected = {"hostname": "node", "user": node.server.user, "roles": ["updates"]}
    found = run_checks(
        [node.server],
        {node.server.name: {**expected, "kind": "container", "updates": updates}},
        select=["updates"],
    )
    return {v.id: v for v in found if v.id.startswith("updates.")}


@pytest.fixture(scope="module")
def node(new_node: NodeMaker) -> Node:
    node = new_node()
    offer(node, "1.0")
    node.run(f"apt-get -q -y install {' '.join(ALL)} unattended-upgrades", 300)
    return node


def test_without_the_role_the_checks_fail(node: Node) -> None:
    """Debian's own configuration takes more than security updates."""
    found = verdicts(node)
    assert found["updates.origins"].status == "fail"
    assert "label=Debian" in found["updates.origins"].measured
    assert found["updates.backlog"].status == "fail"


def test_it_changes_once(node: Node) -> None:
    assert node.play("freeze", "updates", check_only=True).changed(node.server.name) >= 1
    assert node.changed("freeze", "updates") >= 2
    assert node.changed("freeze", "updates") == 0
    assert {v.status for v in verdicts(node).values()} == {"pass"}


def test_what_waits_is_counted_by_kind_and_the_frozen_set_does_not_wait(node: Node) -> None:
    offer(node, "1.1")
    found = state(node)
    assert found["security"]["security-fix"] == "1.1"
    assert found["other"]["plain-update"] == "1.1"
    assert "docker-ce" not in found["security"]
    count = len(found["security"])
    metrics = node.run("cat /var/lib/gpuferry/metrics/updates.prom")
    assert f'gpuferry_updates_pending{{kind="security"}} {count}\n' in metrics
    assert "security-fix" in verdicts(node)["updates.backlog"].evidence


def test_what_waits_for_days_is_a_failure(node: Node) -> None:
    old = time.time() - 3 * 86400
    node.run(f'sed -i \'s/"security-fix": 1[0-9.]*/"security-fix": {old}/\' {STATE}')
    assert state(node)["oldest_seconds"] > 2 * 86400
    found = verdicts(node)["updates.backlog"]
    assert found.status == "fail"
    assert "the oldest for 3 d" in found.measured


def test_security_updates_install_themselves_and_nothing_else_does(node: Node) -> None:
    node.run("unattended-upgrade", 300)
    expected = {"security-fix": "1.1", "docker-ce": "1.0", "plain-update": "1.0"}
    assert versions(node, *ALL) == expected
    assert "security-fix" not in state(node)["security"]
    assert verdicts(node)["updates.backlog"].status == "pass"


def test_switched_off_they_are_only_counted(node: Node) -> None:
    node.play("updates", updates_automatic=False)
    assert verdicts(node, automatic=False)["updates.enabled"].status == "pass"
    assert verdicts(node, automatic=True)["updates.enabled"].status == "fail"


def test_a_window_that_is_none_is_refused(node: Node) -> None:
    with pytest.raises(StepFailed, match="not sometimes"):
        node.play("updates", updates_reboot_window="sometimes")


def test_it_reboots_in_the_window_once_the_last_session_has_ended(node: Node) -> None:
    node.run("touch /run/reboot-required; echo libc6 > /run/reboot-required.pkgs")
    assert "no window is declared" in node.run(PROGRAM)
    waits = verdicts(node)["updates.reboot"]
    assert (waits.status, "by libc6" in waits.measured) == ("pass", True)
    node.play("updates", updates_reboot_window="00:00-24:00")
    assert node.run(PROGRAM) == "ferry is logged in\n"
    node.run("systemd-run -q --on-active=4s --timer-property=AccuracySec=100ms"
             " systemctl start gpuferry-updates.service")  # fmt: skip
    node.session.__exit__(None, None, None)
    deadline = time.monotonic() + 40
    # A container that reboots ends; its provider starts it again.
    while machine.states(node.stack)[node.server.name] == "running":
        assert time.monotonic() < deadline, "it did not reboot"
        time.sleep(0.5)
    machine.start(node.stack, node.server.name)
    wait_for_ssh(node.server, 60)
    node.session = SshSession([node.server])
    node.session.__enter__()
    assert state(node)["decision"]["why"] == ["no reboot is needed"]
