"""While GPU work really runs, nothing interrupts it; afterwards everything is mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gpuferry.converge.run import converge
from gpuferry.desired import GPU_ROLES
from gpuferry.errors import StepFailed
from tests.support import gpu_node
from tests.support.marks import slow
from tests.support.node import Node, NodeMaker
from tests.support.packages import publish

DROPIN = "/etc/systemd/system/docker.service.d/60-gpuferry.conf"
MAIN = "systemctl show --property=MainPID,ActiveEnterTimestampMonotonic docker.service"


@pytest.fixture(scope="module")
def node(new_node: NodeMaker) -> Node:
    return gpu_node.make(new_node)


@pytest.fixture(
    params=[gpu_node.start_container, *slow(gpu_node.start_process)], ids=lambda f: f.__name__
)
def work(request: pytest.FixtureRequest, node: Node) -> Iterator[str]:
    """What a refusal has to name."""
    start: Callable[[Node], None] = request.param
    try:
        start(node)
        yield "container trainer" if start is gpu_node.start_container else "on GPU 1"
    finally:
        gpu_node.end_work(node)


@pytest.fixture
def container(node: Node) -> Iterator[str]:
    """Work of one kind, where what it keeps from happening is the question."""
    try:
        gpu_node.start_container(node)
        yield "container trainer"
    finally:
        gpu_node.end_work(node)


def test_converging_unchanged_while_busy_changes_nothing(node: Node, work: str) -> None:
    assert work
    before = node.run(MAIN)
    entry = node.entry(**gpu_node.variables()).model_copy(
        update={"variables": node.variables(*GPU_ROLES, **gpu_node.variables())}
    )
    (done,) = converge([entry], full=True, say=node.said.append)
    assert (done.changed, done.changed_tasks, done.disturbs) == (0, [], [])
    assert node.run(MAIN) == before


EDITS = {
    "a restart of Docker": (
        "sed -i s/json-file/local/ /etc/docker/daemon.json; grep -q local /etc/docker/daemon.json",
        "cat /etc/docker/daemon.json",
        "restart Docker (log-driver",
        "docker",
    ),
    "a reload of the daemon manager": (
        f"echo '# by hand' >> {DROPIN}",
        f"cat {DROPIN}",
        "reload the daemon manager",
        "docker",
    ),
    "a package of the frozen families": (
        "dpkg --remove --force-depends --force-hold libnvidia-ml1 2>/dev/null",
        "dpkg-query -W -f='${db:Status-Status}' libnvidia-ml1",
        "Changing libnvidia-ml1",
        "nvidia_driver",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_would_interrupt_work_is_refused_until_it_has_ended(
    node: Node, container: str, edit: str
) -> None:
    by_hand, show, says, role = EDITS[edit]
    node.run(by_hand)
    before = node.run(show), node.run(MAIN)
    with pytest.raises(StepFailed) as refused:
        node.play(role, **gpu_node.variables())
    assert container in str(refused.value)
    assert says in str(refused.value)
    assert "--disturb" in str(refused.value)
    assert (node.run(show), node.run(MAIN)) == before
    gpu_node.end_work(node)
    assert node.changed(role, **gpu_node.variables()) >= 1
    assert node.changed(role, **gpu_node.variables()) == 0


def test_the_preview_lists_what_would_be_interrupted(node: Node, work: str) -> None:
    node.run(EDITS["a restart of Docker"][0])
    found = node.play("docker", check_only=True, **gpu_node.variables())
    gpu_node.end_work(node)
    node.play("docker", **gpu_node.variables())
    (said,) = found.disturbs[node.server.name]
    assert "restart Docker (log-driver" in said
    assert work in said


@pytest.mark.slow
@pytest.mark.usefixtures("container")
def test_with_leave_it_is_done_at_once(node: Node) -> None:
    node.run(EDITS["a restart of Docker"][0])
    before = node.run(MAIN)
    assert node.changed("docker", **gpu_node.variables(ferry_disturb=True)) == 1
    assert node.run(MAIN) != before


def test_no_reboot_while_gpus_are_in_use(node: Node, work: str) -> None:
    node.run("touch /run/reboot-required")
    try:
        node.play("updates", updates_reboot_window="00:00-24:00")
        said = node.run("python3 -B /usr/local/lib/gpuferry/updates/main.py")
        assert f"in use: {work}" in said or work in said
        assert "ferry is logged in" in said
    finally:
        node.run("rm /run/reboot-required")
    assert "no reboot is needed" in node.run("python3 -B /usr/local/lib/gpuferry/updates/main.py")


@pytest.mark.slow
def test_a_package_whose_scripts_reload_the_daemon_manager_waits_and_another_does_not(
    node: Node, container: str
) -> None:
    scripts = {"reloads": {"postinst": "#!/bin/sh\nsystemctl --system daemon-reload\n"}}
    fields = {"drags": "Depends: reloads\n"}
    publish(node, {"harmless": "1", "reloads": "1", "drags": "1"}, fields=fields, scripts=scripts)
    assert node.changed("base", base_packages_ahead=["harmless"]) == 1
    for name in ("reloads", "drags"):
        with pytest.raises(StepFailed, match=r"packages: reloads.*nothing was changed") as refused:
            node.play("base", base_packages_ahead=[name])
        assert container in str(refused.value)
    gpu_node.end_work(node)
    assert node.changed("base", base_packages_ahead=["drags"]) == 1
    node.run("apt-get -q -y remove harmless reloads drags; rm -r /opt/test-packages; "
             "rm /etc/apt/sources.list.d/test-packages.list; apt-get -q update", 300)  # fmt: skip
