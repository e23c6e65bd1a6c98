"""GPUs cut into MIG instances: as declared, after a boot as well, in containers too."""

import pytest

from gpuferry.checking import run_checks
from gpuferry.desired import GPU_DOCKER, GPU_ROLES
from gpuferry.errors import StepFailed
from tests.support import gpu_node

LAYOUT = {0: ["3g.40gb", "2g.20gb", "1g.10gb"], 1: []}


def variables(layout):
    return {
        "nvidia_driver_wish": {"gpus": 2, "mig": layout or None},
        "mig_layout": {str(index): parts for index, parts in layout.items()},
        "docker_daemon_options": GPU_DOCKER,
    }


@pytest.fixture(scope="module")
def node(new_node):
    return gpu_node.make(new_node, "A100-80", **variables(LAYOUT))


def play(node, layout):
    roles = ("mig", "container_toolkit")
    return node.play(*roles, **variables(layout)).changed_tasks.get(node.server.name, [])


def parts(node):
    listed = node.run("nvidia-smi -L | sed -n 's/^ *MIG \\([^ ]*\\) .*/\\1/p'")
    return listed.split()


def verdicts(node, layout):
    expected = {
        "hostname": node.server.name,
        "user": node.server.user,
        "roles": GPU_ROLES,
        "kind": "container",
        "gpu": {"model": "A100-80", "count": 2, "mig": layout},
    }
    select = ["mig", "gpu.count", "container_toolkit"]
    found = run_checks([node.server], {node.server.name: expected}, select=select)
    return {verdict.id: verdict for verdict in found}


def test_the_gpus_are_cut_as_declared_and_containers_get_the_parts(node):
    assert sorted(parts(node)) == sorted(LAYOUT[0])
    found = verdicts(node, LAYOUT)
    assert found["mig.layout"].status == "pass", found["mig.layout"]
    for name in ("gpu.count", "container_toolkit.device", "container_toolkit.cdi_fresh"):
        assert found[name].status == "pass", found[name]
    assert node.run("nvidia-ctk cdi list 2>/dev/null | grep -c nvidia.com/gpu=MIG-").strip() == "3"


def test_nothing_to_do_a_second_time(node):
    assert node.changed(*GPU_ROLES, **variables(LAYOUT)) == 0


def test_the_layout_is_made_again_at_boot_before_docker(node):
    node.restart()
    assert sorted(parts(node)) == sorted(LAYOUT[0])
    times = node.run(
        # SSH answers before the last units of the boot are there.
        "systemctl is-system-running --wait >/dev/null || true; "
        "systemctl show -p ActiveEnterTimestampMonotonic --value"
        " gpuferry-mig nvidia-cdi-refresh docker"
    ).split()
    assert sorted(times, key=int) == times
    assert play(node, LAYOUT) == []


def test_what_was_changed_by_hand_is_seen_and_mended(node):
    node.run("nvidia-smi mig -i 0 -dci; nvidia-smi mig -i 0 -dgi")
    found = verdicts(node, LAYOUT)["mig.layout"]
    assert (found.status, "MIG on, no instance" in found.measured) == ("fail", True)
    assert play(node, LAYOUT) == ["mig: Cut the GPUs into MIG instances"]
    assert verdicts(node, LAYOUT)["mig.layout"].status == "pass"


def test_a_gpu_in_use_is_not_cut(node):
    busy = "/opt/gpusim/bin/gpusim busy --gpu 1 --seconds 300"
    node.run(f"systemd-run -q --collect --unit=work {busy}; sleep 1")
    with pytest.raises(StepFailed, match="in use by process"):
        play(node, {0: LAYOUT[0], 1: ["7g.80gb"]})
    node.run("systemctl stop work")
    assert sorted(parts(node)) == sorted(LAYOUT[0])


@pytest.mark.slow
def test_another_layout_takes_its_place(node):
    play(node, {0: [], 1: ["1g.10gb"] * 7})
    assert parts(node) == ["1g.10gb"] * 7
    assert play(node, {0: [], 1: ["1g.10gb"] * 7}) == []


@pytest.mark.slow
def test_no_layout_leaves_the_gpus_and_takes_the_unit_away(node):
    play(node, {})
    assert parts(node) == ["1g.10gb"] * 7
    assert node.run("ls /etc/systemd/system/*/gpuferry-mig* 2>/dev/null || echo none") == "none\n"
    assert play(node, {}) == []
    assert verdicts(node, None)["mig.layout"].status == "pass"
