"""The frozen set moves on purpose: real apt, real packages under another version, a way back."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import time
from collections.abc import Iterator

import pytest

from gpuferry.checking import run_checks
from gpuferry.desired import GPU_ROLES
from gpuferry.driver import Wish
from gpuferry.errors import SpecError, StepFailed
from gpuferry.inventory import Entry
from gpuferry.operate.upgrading import Options, Outcome, upgrade_server
from tests.support import gpu_node, newer_driver
from tests.support.node import Node, NodeMaker
from tests.support.packages import versions

HOLDS = "apt-mark showhold; cat /etc/apt/preferences.d/60-gpuferry-freeze"


@pytest.fixture(scope="module")
def node(new_node: NodeMaker) -> Node:
    return gpu_node.make(new_node)


@pytest.fixture(scope="module")
def before(node: Node) -> dict[str, str]:
    """The driver packages as the distribution has them."""
    return versions(node, *newer_driver.PACKAGES)


@pytest.fixture(autouse=True)
def _clean(node: Node) -> Iterator[None]:
    yield
    gpu_node.end_work(node)


def newer(before: dict[str, str], number: int) -> str:
    """`550.901.01` for 550.163.01: the same branch and length."""
    parts = before["nvidia-smi"].split("-")[0].split(".")
    return ".".join([parts[0], str(900 + number), *parts[2:]])


def entry(node: Node) -> Entry:
    return Entry(
        server=node.server,
        ssh_wait_seconds=60,
        variables=node.variables(*GPU_ROLES, **gpu_node.variables()),
        expectations={
            "hostname": node.server.name,
            "user": node.server.user,
            "roles": GPU_ROLES,
            "kind": "container",
            "gpu": {"model": "L4", "count": 2},
        },
    )


def upgrade(node: Node, **options: object) -> Outcome:
    return upgrade_server(entry(node), Wish(gpus=2), Options(**options), node.said.append)  # type: ignore[arg-type]


def freeze_verdicts(node: Node) -> dict[str, str]:
    expected = {node.server.name: {**entry(node).expectations, "roles": ["freeze"]}}
    found = run_checks([node.server], expected, select=["freeze"])
    return {v.id: f"{v.status} {v.measured}" for v in found if v.id.startswith("freeze.")}


def are(node: Node, upstream: str) -> bool:
    found = versions(node, *newer_driver.PACKAGES)
    return {v.rsplit("-", 1)[0] for v in found.values()} == {upstream} and len(found) == 4


def smi(node: Node) -> str:
    said = node.run("nvidia-smi")
    return re.findall(r"NVIDIA-SMI (\S+) +Driver Version: (\S+)", said)[0]  # type: ignore[no-any-return]


def test_nothing_to_do(node: Node, before: dict[str, str]) -> None:
    assert len(before) == 4
    outcome = upgrade(node, to=before["nvidia-smi"].split(".")[0])
    assert (outcome.result, outcome.moves) == ("nothing", [])


def test_the_plan_shows_all_and_changes_nothing(node: Node, before: dict[str, str]) -> None:
    newer_driver.offer(node, newer(before, 1))
    state = node.run(HOLDS)
    outcome = upgrade(node, plan_only=True)
    assert outcome.result == "planned"
    assert {m.name for m in outcome.moves} >= set(newer_driver.PACKAGES)
    assert all(m.new.startswith(newer(before, 1)) for m in outcome.moves
               if m.name in newer_driver.PACKAGES)  # fmt: skip
    assert node.run(HOLDS) == state
    assert versions(node, *newer_driver.PACKAGES) == before


def test_work_is_waited_for_and_refused_when_it_does_not_end(
    node: Node, before: dict[str, str]
) -> None:
    gpu_node.start_process(node)
    with pytest.raises(StepFailed, match=r"in use by process \d+ .*GPU 1.*nothing was changed"):
        upgrade(node, drain_seconds=3)
    assert any("waiting for GPU work to end" in said for said in node.said)
    assert versions(node, *newer_driver.PACKAGES) == before
    assert not node.run("ls /var/lib/gpuferry | grep upgrade || true")


def test_the_whole_set_moves_together_once_work_has_ended(
    node: Node, before: dict[str, str]
) -> None:
    node.run("systemd-run -q --collect --unit=work /opt/gpusim/bin/gpusim busy --gpu 0 --seconds 8")
    outcome = upgrade(node, drain_seconds=60)
    assert outcome.result == "upgraded", outcome.message
    assert are(node, newer(before, 1))
    assert smi(node) == (newer(before, 1),) * 2
    assert newer(before, 1) in node.run("cat /etc/cdi/nvidia.json")
    assert {v.split()[0] for v in freeze_verdicts(node).values()} == {"pass"}
    assert not node.run("ls /var/lib/gpuferry | grep upgrade || true")
    assert upgrade(node).result == "nothing"


def test_a_set_whose_checks_fail_is_taken_back_exactly(node: Node, before: dict[str, str]) -> None:
    """The new nvidia-smi is of another version than the library: real packages did that."""
    newer_driver.offer(node, newer(before, 2), {"nvidia-smi": {"program_of_before": True}})
    state, holds = versions(node, *newer_driver.PACKAGES), node.run(HOLDS)
    auto = node.run("apt-mark showauto")
    outcome = upgrade(node)
    assert outcome.result == "rolled_back", outcome.message
    assert outcome.exit_code == 1
    assert "nvidia_driver.versions" in outcome.message
    assert "The old versions are back and frozen" in outcome.message
    assert versions(node, *newer_driver.PACKAGES) == state
    assert node.run(HOLDS) == holds
    assert set(auto.split()) <= set(node.run("apt-mark showauto").split())
    assert smi(node) == (newer(before, 1),) * 2
    assert {v.split()[0] for v in freeze_verdicts(node).values()} == {"pass"}


@pytest.mark.slow
def test_a_package_that_cannot_be_configured_is_taken_back(
    node: Node, before: dict[str, str]
) -> None:
    newer_driver.offer(
        node, newer(before, 2), {"libnvidia-ml1": {"scripts": {"postinst": "exit 3"}}}
    )
    outcome = upgrade(node)
    assert outcome.result == "rolled_back", outcome.message
    assert are(node, newer(before, 1))
    assert {v.split()[0] for v in freeze_verdicts(node).values()} == {"pass"}


LEAF = {"libnvidia-leaf": "Version: 1\n"}
KERNEL = {"linux-image-9.99.0-gpu": "Version: 1\n"}


@pytest.mark.parametrize(
    ("fields", "others", "reason"),
    [
        ({"Depends": "linux-image-9.99.0-gpu"}, KERNEL, "pulls_kernel"),
        ({"Conflicts": "nvidia-container-toolkit"}, {}, "removes_runtime"),
        ({"Conflicts": "libnvidia-leaf"}, LEAF, "removes_driver"),
        ({"Depends": "nowhere-to-be-had"}, {}, "apt_cannot"),
    ],
)
def test_a_set_that_would_do_more_is_refused(
    node: Node, before: dict[str, str], fields: dict[str, str], others: dict[str, str], reason: str
) -> None:
    newer_driver.offer(node, newer(before, 3), {"nvidia-smi": {"fields": fields}}, others)
    if others is LEAF:
        node.run("apt-get -q update; apt-get -q -y install libnvidia-leaf", 300)
    outcome = upgrade(node)
    if others is LEAF:
        node.run("apt-get -q -y purge libnvidia-leaf")
    assert outcome.result == "refused"
    assert outcome.plan is not None
    assert outcome.plan.refusal is not None
    assert outcome.plan.refusal.reason == reason
    assert are(node, newer(before, 1))


WAIT = "touch /run/moving; while test ! -e /run/go-on; do sleep 0.2; done"


def kill_in_the_middle(node: Node, before: dict[str, str]) -> None:
    """The controller dies while a package is being configured, and then dpkg."""
    newer_driver.offer(node, newer(before, 4), {"libnvidia-ml1": {"scripts": {"postinst": WAIT}}})
    node.run("rm -f /run/moving /run/go-on")
    process = multiprocessing.get_context("fork").Process(target=run_in_a_group, args=(node,))
    process.start()
    deadline = time.monotonic() + 300
    while "moving" not in node.run("ls /run"):
        assert process.is_alive(), "the upgrade ended before packages moved"
        assert time.monotonic() < deadline, "waited 300 s for packages to move"
        time.sleep(0.5)
    assert process.pid is not None
    os.killpg(process.pid, signal.SIGKILL)
    process.join()
    node.run(
        "for name in dpkg apt-get; do pkill -KILL -x $name || true; done; touch /run/go-on; "
        "while pgrep -x dpkg >/dev/null; do sleep 0.1; done"
    )


def run_in_a_group(node: Node) -> None:
    os.setpgid(0, 0)
    upgrade(node)


@pytest.mark.slow
def test_an_interrupted_upgrade_is_told_and_finished_by_the_next(
    node: Node, before: dict[str, str]
) -> None:
    kill_in_the_middle(node, before)
    verdicts = freeze_verdicts(node)
    assert verdicts["freeze.upgrade_finished"].startswith("fail")
    assert "installing" in verdicts["freeze.upgrade_finished"]
    with pytest.raises(SpecError, match="unfinished since"):
        upgrade(node, to="999")
    assert upgrade(node, plan_only=True).result == "planned"
    outcome = upgrade(node)
    assert outcome.result == "upgraded", outcome.message
    assert are(node, newer(before, 4))
    assert {v.split()[0] for v in freeze_verdicts(node).values()} == {"pass"}


@pytest.mark.slow
def test_an_older_version_is_a_target_like_any_other(node: Node, before: dict[str, str]) -> None:
    newer_driver.withdraw(node)
    outcome = upgrade(node, to=before["nvidia-smi"].rsplit("-", 1)[0])
    assert outcome.result == "upgraded", outcome.message
    assert versions(node, *newer_driver.PACKAGES) == before


@pytest.mark.slow
def test_an_interrupted_upgrade_can_be_undone(node: Node, before: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="no unfinished upgrade"):
        upgrade(node, rollback=True)
    kill_in_the_middle(node, before)
    # Not even the sources have anything any more: the way back is on the server.
    node.run("mv /etc/apt/sources.list /root; mv /etc/apt/sources.list.d /root; apt-get -q update")
    try:
        outcome = upgrade(node, rollback=True)
    finally:
        node.run("mv /root/sources.list /root/sources.list.d /etc/apt; apt-get -q update", 300)
    assert outcome.result == "rolled_back", outcome.message
    assert versions(node, *newer_driver.PACKAGES) == before
    assert {v.split()[0] for v in freeze_verdicts(node).values()} == {"pass"}


@pytest.mark.slow
def test_what_was_moved_by_hand_is_accepted_once_its_checks_pass(
    node: Node, before: dict[str, str]
) -> None:
    newer_driver.offer(node, newer(before, 5), {"nvidia-smi": {"program_of_before": True}})
    wanted = " ".join(f"{name}={newer(before, 5)}*" for name in newer_driver.PACKAGES)
    by_hand = f"apt-get -q -y --allow-change-held-packages install {wanted}"
    node.run(f"apt-get -q update; {by_hand}", 300)
    node.play("nvidia_driver", **gpu_node.variables())
    outcome = upgrade(node, accept=True)
    assert outcome.result == "refused"
    assert "nvidia_driver.versions" in outcome.message
    newer_driver.offer(node, newer(before, 5))
    node.run(f"apt-get -q update; {by_hand} --reinstall", 300)
    assert freeze_verdicts(node)["freeze.members"].startswith("fail")
    node.run("systemctl restart nvidia-cdi-refresh.service")
    outcome = upgrade(node, accept=True, plan_only=True)
    assert (outcome.result, bool(outcome.moves)) == ("planned", True)
    assert freeze_verdicts(node)["freeze.members"].startswith("fail")
    outcome = upgrade(node, accept=True)
    assert outcome.result == "accepted", outcome.message
    assert {v.split()[0] for v in freeze_verdicts(node).values()} == {"pass"}
