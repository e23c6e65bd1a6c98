"""GPU checks on real servers with simulated GPUs, and on servers where nothing may pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from gpuferry import desired
from gpuferry.checking import run_checks
from gpuferry.operate import simulation
from gpuferry.simulation.assign import assign
from gpuferry.simulation.faults import Change, Request, clear, inject
from gpuferry.verdict import Verdict
from tests.nodes.conftest import Node, NodeMaker
from tests.support import gpu_node
from tests.support.gpu_node import NEVER
from tests.support.marks import slow

CONCERNS = ["gpu", "nvidia_driver", "nvidia_cuda", "fabric_manager", "container_toolkit"]
CUDA = {"runtime": ["12.4"]}
IN_CONTAINERS = {"container_toolkit.device", "container_toolkit.runtime"}
PER_GPU = {f"gpu.{name}" for name in ("ecc", "remapped_rows", "pcie", "power_limit", "clocks", "memory")}  # fmt: skip  # noqa: E501


def checked(node: Node, select: list[str] = CONCERNS, **gpu: object) -> dict[str, Verdict]:
    expected = {
        "hostname": node.server.name,
        "user": node.server.user,
        "roles": desired.GPU_ROLES,
        "kind": "container",
        "gpu": {"model": "L4", "count": 2, **gpu},
    }
    found = run_checks([node.server], {node.server.name: expected}, select=select)
    return {verdict.id: verdict for verdict in found if verdict.id != "server.reachable"}


def of(status: str, verdicts: dict[str, Verdict]) -> set[str]:
    return {name for name, verdict in verdicts.items() if verdict.status == status}


def change(node: Node, what: Request | list[str]) -> None:
    def decide(scenario, moment):
        if isinstance(what, Request):
            return inject(scenario, what, moment)
        return Change(assign(scenario, [1], what, moment))

    simulation.change(node.session, node.server, decide)


@pytest.fixture(scope="module")
def node(new_node: NodeMaker) -> Node:
    return gpu_node.make(new_node, nvidia_driver_wish={"gpus": 2, "cuda": CUDA})


@pytest.fixture
def faulty(node: Node) -> Iterator[Callable[..., dict[str, Verdict]]]:
    """Inject and check; afterwards all is healthy again and the log empty, as at boot."""

    def inject_and_check(*changes: Request | list[str]) -> dict[str, Verdict]:
        for what in changes:
            change(node, what)
        return checked(node)

    yield inject_and_check
    simulation.change(node.session, node.server, lambda s, m: Change(clear(s, m)))
    node.run("rm -f /run/gpusim/kmsg")


def test_without_a_gpu_nothing_passes(new_node: NodeMaker) -> None:
    verdicts = checked(new_node("debian-13", name="bare"), cuda=CUDA)
    assert of("pass", verdicts) == set()
    assert {"gpu.count", "nvidia_driver.answers", "nvidia_driver.versions"} <= of("fail", verdicts)
    assert verdicts["gpu.count"].measured.startswith("0 on PCI, 0 answer NVML")


def test_without_a_driver_nothing_passes(new_node: NodeMaker) -> None:
    bare = new_node("debian-13", name="gpu-1", gpu_model="L4", gpu_count=2)
    verdicts = checked(bare, cuda=CUDA)
    assert of("pass", verdicts) == set()
    assert verdicts["gpu.count"].status == "fail"
    assert verdicts["gpu.count"].measured.startswith("2 on PCI, 0 answer NVML (simulated GPUs)")
    assert verdicts["nvidia_driver.answers"].measured == "nvidia-smi is not installed"


def test_every_check_passes_or_says_why_it_measured_nothing(node: Node) -> None:
    verdicts = checked(node, cuda=CUDA)
    assert of("fail", verdicts) == set(), verdicts
    assert of("not_measured", verdicts) == NEVER
    assert {v.id for v in verdicts.values() if "simulated GPU" in v.measured} >= of(
        "pass", verdicts
    )
    count = verdicts["gpu.count"]
    assert count.measured == "2 on PCI, 2 answer NVML (simulated GPUs)"
    assert count.evidence == ", ".join(f"0000:0{bus}:00.0 NVIDIA L4 (simulated)" for bus in (1, 2))
    assert verdicts["nvidia_cuda.runtime"].measured.startswith("12.4")


def test_what_is_declared_otherwise_is_told(node: Node) -> None:
    verdicts = checked(
        node, model="L40S", count=4, cuda={"runtime": ["12.4", "11.8"], "toolkit": ["13.0"]}
    )
    assert of("fail", verdicts) == {
        "gpu.count", "nvidia_cuda.driver", "nvidia_cuda.runtime", "nvidia_cuda.toolkit",
    }  # fmt: skip
    assert "2 x NVIDIA L4 (simulated) instead of L40S" in verdicts["gpu.count"].measured
    assert verdicts["nvidia_cuda.runtime"].measured == "11.8 missing; there: 12.4"
    assert "CUDA 13.0 needs branch 580" in verdicts["nvidia_cuda.driver"].measured


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        *slow(([Request("ecc-uncorrected", gpu=0, count=2)],
               {"gpu.ecc": ("critical", "GPU 0: 2 uncorrected")})),
        *slow(([Request("throttle", gpu=0, reason="power-brake"), ["pcie_generation_max=3"]],
               {"gpu.clocks": ("major", "power brake"),
                "gpu.pcie": ("minor", "generation 3 x16")})),
        ([Request("xid", gpu=0, code=13),
          Request("throttle", gpu=1, reason="sw-thermal"),
          Request("memory-leak", gpu=0, count=2000),
          Request("remap-pending", gpu=1),
          ["pcie_width=8", "power_limit=50"]],
         {"gpu.clocks": ("major", "software thermal"),
          "gpu.memory": ("minor", "2000 MiB in use by 0"),
          "gpu.remapped_rows": ("major", "GPU 1: a row waits"),
          "gpu.pcie": ("major", "generation 4 x8, x16 is possible"),
          "gpu.power_limit": ("major", "GPU 1: 50 W, 72 W")}),
        ([Request("xid", gpu=0, code=777),
          Request("throttle", gpu=0, reason="hw-thermal"),
          ["memory_total=12000"]],
         {"gpu.xid": ("major", "not in the catalogue"),
          "gpu.clocks": ("major", "hardware thermal"),
          "gpu.memory": ("major", "12000 MiB")}),
        ([Request("remap-failed", gpu=1)],
         {"gpu.xid": ("critical", "Xid 64 of 0000:02:00"),
          "gpu.remapped_rows": ("critical", "could not be remapped")}),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_faults_fail_exactly_their_own_checks(faulty, faults, expected) -> None:
    verdicts = faulty(*faults)
    assert of("fail", verdicts) == set(expected), verdicts
    assert of("not_measured", verdicts) == NEVER
    for name, (severity, words) in expected.items():
        assert words in verdicts[name].measured
        assert verdicts[name].severity == severity
        assert verdicts[name].next_step


def test_what_is_normal_fails_nothing(faulty) -> None:
    verdicts = faulty(
        Request("xid", gpu=0, code=43),
        Request("ecc-corrected", gpu=0, count=5),
        Request("throttle", gpu=0, reason="power-cap"),
        Request("energy-reset", gpu=0),
        Request("wide-processes"),
        Request("delay", function="nvmlDeviceGetName", milliseconds=300),
        ["pcie_generation=1"],
    )
    assert of("fail", verdicts) == set(), verdicts
    assert of("not_measured", verdicts) == NEVER
    assert "of jobs, not of the GPU: Xid 43" in verdicts["gpu.xid"].measured


@pytest.mark.parametrize(
    ("faults", "failing", "unknown"),
    [
        (
            [Request("lost", gpu=1)],
            {"gpu.count", "gpu.xid", "nvidia_driver.answers"},
            PER_GPU | IN_CONTAINERS,
        ),
        (
            [Request("reset-required", gpu=0)],
            {"gpu.count", "nvidia_driver.answers"},
            PER_GPU | IN_CONTAINERS,
        ),
        (
            [
                Request("not-supported", function="nvmlDeviceGetEnforcedPowerLimit"),
                Request("absent", function="nvmlDeviceGetRemappedRows"),
                ["ecc_mode=0"],
            ],
            set(),
            {"gpu.ecc", "gpu.remapped_rows", "gpu.power_limit"},
        ),
    ],
    ids=["lost", "reset required", "readings absent"],
)
def test_what_cannot_be_asked_is_not_measured(faulty, faults, failing, unknown) -> None:
    verdicts = faulty(*faults)
    assert of("fail", verdicts) == failing, verdicts
    assert of("not_measured", verdicts) == NEVER | unknown


def test_a_lost_gpu_is_named_and_hides_no_other(faulty) -> None:
    verdicts = faulty(Request("lost", gpu=1), Request("ecc-uncorrected", gpu=0, count=1))
    assert "GPU 1 (0000:02:00.0)" in verdicts["gpu.count"].measured
    assert "GPU is lost" in verdicts["gpu.count"].measured
    assert verdicts["gpu.ecc"].measured == "GPU 0: 1 uncorrected memory error"
    assert "exit code 15" in verdicts["nvidia_driver.answers"].measured


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("version-mismatch", "exit code 18"),
        *slow(("driver-not-loaded", "exit code 9"), ("no-devices", "exit code 6")),
    ],
)
def test_where_nvml_lists_nothing_nothing_passes(faulty, kind, words) -> None:
    verdicts = faulty(Request(kind))
    assert of("pass", verdicts) == set()
    assert {"gpu.count", "nvidia_driver.answers"} <= of("fail", verdicts)
    assert words in verdicts["nvidia_driver.answers"].measured
    versions = verdicts["nvidia_driver.versions"]
    if kind == "version-mismatch":
        assert "mismatch" in versions.measured
        assert versions.next_step.startswith("reboot gpu-1")


def test_a_hung_function_is_a_verdict_in_time_and_leaves_no_process(faulty, node: Node) -> None:
    change(node, Request("hang", gpu=1, function="nvmlDeviceGetEnforcedPowerLimit"))
    started = time.monotonic()
    for _ in range(2):
        verdicts = checked(node)
    assert time.monotonic() - started < 2 * 20
    answers = verdicts["nvidia_driver.answers"]
    assert of("fail", verdicts) == {"nvidia_driver.answers"}
    assert answers.measured == (
        "nvidia-smi did not end within 10 s; "
        "NVML does not return from GPU 1: nvmlDeviceGetEnforcedPowerLimit"
    )
    # Asked before the function that hangs, so it is known.
    assert verdicts["gpu.ecc"].status == "pass"
    assert verdicts["gpu.power_limit"].status == "not_measured"
    left = node.run("ps -eo comm,args | grep -E 'nvidia-smi|gpuferry-nvml' | grep -v grep || true")
    assert left == ""


def test_a_table_with_another_exit_code_than_0_is_a_failure(node: Node) -> None:
    node.run("""
    program=$(readlink -f /usr/bin/nvidia-smi)
    mkdir -p /opt/fake; cp "$program" /opt/fake/real
    printf '#!/bin/sh\\n/opt/fake/real "$@"; exit 9\\n' > /opt/fake/nvidia-smi
    chmod +x /opt/fake/nvidia-smi; mount --bind /opt/fake/nvidia-smi "$program"
    """)
    try:
        answers = checked(node, ["nvidia_driver"])["nvidia_driver.answers"]
    finally:
        node.run('umount "$(readlink -f /usr/bin/nvidia-smi)"; rm -r /opt/fake')
    assert answers.status == "fail"
    assert "exit code 9" in answers.measured


JOB = """
tar -ch --transform 's#^/*lib#lib#' -C / /usr/bin/sleep \
  $(ldd /usr/bin/sleep | grep -o '/[^ ]*') 2>/dev/null | docker import - job >/dev/null
docker run -d --name job --device nvidia.com/gpu=all job /usr/bin/sleep 600 >/dev/null
"""
OTHER_DRIVER = """
cp -p /var/lib/gpusim/driver /root/driver
echo 550.90.07 12.4 > /var/lib/gpusim/driver
"""
BACK = """
mv /root/driver /var/lib/gpusim/driver || true
docker rm -f job >/dev/null
docker image rm job >/dev/null
"""


def test_another_driver_makes_the_specification_and_running_containers_stale(node: Node) -> None:
    node.run(JOB)
    try:
        assert checked(node)["container_toolkit.running"].status == "pass"
        node.run(OTHER_DRIVER)
        verdicts = checked(node)
    finally:
        node.run(BACK)
    assert of("fail", verdicts) == {
        "container_toolkit.cdi_fresh", "container_toolkit.running", "nvidia_driver.versions",
    }  # fmt: skip
    assert verdicts["container_toolkit.running"].measured.startswith("job uses 550.163.01")
    assert "550.163.01, now 550.90.07" in verdicts["container_toolkit.cdi_fresh"].measured
    assert "NVML reports 550.90.07" in verdicts["nvidia_driver.versions"].measured


def test_a_specification_with_an_old_device_number_is_stale(node: Node) -> None:
    node.run('sed -i.keep \'s/"major":511/"major":510/\' /etc/cdi/nvidia.json')
    try:
        stale = checked(node, ["container_toolkit.cdi_fresh"])["container_toolkit.cdi_fresh"]
    finally:
        node.run("mv /etc/cdi/nvidia.json.keep /etc/cdi/nvidia.json")
    assert stale.status == "fail"
    assert "/dev/nvidia-uvm has number 511, in it 510" in stale.measured


def test_faults_cleared_and_the_server_restarted_everything_is_well_again(
    faulty, node: Node
) -> None:
    assert of("fail", faulty(Request("lost", gpu=1)))
    simulation.change(node.session, node.server, lambda s, m: Change(clear(s, m)))
    # What is past stays in the kernel's log until the next boot.
    assert of("fail", checked(node)) == {"gpu.xid"}
    node.restart()
    verdicts = checked(node)
    assert of("fail", verdicts) == set(), verdicts
    assert of("not_measured", verdicts) == NEVER
