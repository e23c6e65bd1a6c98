"""The driver plan on real nodes: facts by SSH, apt asked for real, nothing changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuferry.driver import Wish, gather, plan_driver
from gpuferry.driver.wish import Cuda
from gpuferry.operate.driver_plan import ask
from tests.support.node import Node, NodeMaker

PCI = "/var/lib/gpusim/root/sys/bus/pci/devices/0000:01:00.0"
STATE = "dpkg-query -W | sha256sum; ls -lR /etc | sha256sum; cat /proc/1/comm"


@pytest.fixture(scope="module", params=["debian-13", "debian-12"])
def node(request: pytest.FixtureRequest, new_node: NodeMaker) -> Node:
    node = new_node(request.param)
    node.run("apt-get -qq update", timeout_seconds=300)
    return node


@pytest.fixture
def with_l4(node: Node) -> Node:
    words = {"vendor": "0x10de", "device": "0x27b8", "class": "0x030200"}
    lines = "\n".join(f"echo {text} > {PCI}/{name}" for name, text in words.items())
    node.run(f"mkdir -p {PCI}\n{lines}\necho '{{}}' > /var/lib/gpusim/scenario.json")
    return node


def test_a_node_without_gpu_has_nothing_to_plan(node: Node) -> None:
    node.run("rm -rf /var/lib/gpusim")
    facts, plan = ask(node.server, Wish(), None)
    assert plan.action == "none"
    assert facts.virtualization.container == "docker"
    assert facts.seconds < 30


def test_a_simulated_gpu_gets_a_set_that_apt_agrees_to(with_l4: Node, tmp_path: Path) -> None:
    before = with_l4.run(STATE)
    version = {"13": "12.4", "12": "11.8"}
    facts, _ = ask(with_l4.server, Wish(), None)
    wish = Wish(cuda=Cuda(runtime=[version[facts.os.version_id]]))
    facts, plan = ask(with_l4.server, wish, tmp_path / "report")
    assert (plan.action, plan.source) == ("user_space", "simulated")
    assert plan.simulated_by_apt
    assert all(package.version for package in plan.packages)
    assert not plan.removes
    assert with_l4.run(STATE) == before
    # The recording leads to the same facts, and so to the same plan.
    again = gather.from_path(tmp_path / "report", [[package.argument for package in plan.packages]])
    assert again.model_copy(update={"seconds": facts.seconds}) == facts
    assert plan_driver(again, wish) == plan


def test_apt_itself_tells_that_the_headers_metapackage_pulls_a_kernel(node: Node) -> None:
    if 'VERSION_ID="13"' not in node.run("cat /etc/os-release"):
        pytest.skip("Debian 12's headers do not depend on a kernel image")
    facts, _ = gather.from_server(node.session, node.server, [["linux-headers-amd64"]])
    (found,) = facts.simulations
    assert found.state == "ok"
    assert any(package.name.startswith("linux-image-") for package in found.install)
