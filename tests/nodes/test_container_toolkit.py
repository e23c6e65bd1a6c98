"""The container toolkit's specification follows the GPUs and the driver that are there."""

import pytest

from gpuferry.desired import GPU_ROLES
from tests.support import gpu_node
from tests.support.marks import slow

WISH = gpu_node.variables()


@pytest.fixture(scope="module")
def node(new_node):
    return gpu_node.make(new_node)


def changed(node):
    return node.play("container_toolkit", **WISH).changed_tasks.get(node.server.name, [])


def test_nothing_to_do_a_second_time(node):
    assert node.changed(*GPU_ROLES, **WISH) == 0


@pytest.mark.parametrize(
    "edit",
    [
        *slow("sed -i s/550[.]163[.]01/550.163.00/g /etc/cdi/nvidia.json"),
        'sed -i \'s/"name":"GPU-/"name":"XPU-/\' /etc/cdi/nvidia.json',
        "systemctl disable -q nvidia-cdi-refresh",
        *slow(
            "rm /etc/cdi/nvidia.json",
            "systemctl stop nvidia-cdi-refresh",
            "sed -i s/cdi/legacy/ /etc/nvidia-container-runtime/config.toml",
        ),
    ],
)
def test_a_stale_specification_is_made_anew(node, edit):
    node.run(edit)
    assert len(changed(node)) == 1
    assert changed(node) == []
    assert node.run("grep -c 550.163.01 /etc/cdi/nvidia.json").strip() != "0"


def test_the_specification_is_there_before_docker_after_a_restart(node):
    node.run("rm /etc/cdi/nvidia.json")
    node.restart()
    order = node.run(
        # SSH answers before the last units of the boot are there.
        "systemctl is-system-running --wait >/dev/null || true; "
        "systemctl show -p ActiveEnterTimestampMonotonic --value nvidia-cdi-refresh docker"
    ).split()
    assert int(order[0]) < int(order[1])
    assert changed(node) == []


def test_docker_keeps_running_through_all_of_it(node):
    before = node.run("systemctl show -p MainPID --value docker")
    node.run("rm /etc/cdi/nvidia.json")
    changed(node)
    assert node.run("systemctl show -p MainPID --value docker") == before
