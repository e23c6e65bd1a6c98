"""Simulated GPUs on real servers, changed over SSH while they run; the real nvidia-smi looks on."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from gpuferry.errors import SpecError
from gpuferry.operate import simulation
from gpuferry.prepare import binaries
from gpuferry.simulation import build, device_nodes, node_files, program_files
from gpuferry.simulation.assign import assign, forgotten
from gpuferry.simulation.compiled import gpu_uuid
from gpuferry.simulation.faults import Change, Request, clear, inject
from gpuferry.simulation.files import SYSTEM_FILES
from gpuferry.simulation.moment import Moment
from gpuferry.simulation.scenario import Scenario
from tests.nodes.conftest import Node, NodeMaker
from tests.support import nvidia_smi
from tests.support.marks import slow

EMPTY: Mapping[str, str] = MappingProxyType({})


def archive(files: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, data in files.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(data), 0o755 if "/bin/" in path else 0o644
            tar.addfile(entry, io.BytesIO(data))
        for path, target in links.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return out.getvalue()


@pytest.fixture(scope="module", params=["debian-13", *slow("debian-12")])
def node(request: pytest.FixtureRequest, new_node: NodeMaker) -> Node:
    """A server with two simulated L4, as the local provider makes it."""
    try:
        smi = nvidia_smi.fetch(request.param)
    except nvidia_smi.NotToBeHad as reason:
        pytest.skip(f"the real nvidia-smi cannot be had: {reason}")
    node = new_node(request.param, name="gpu-1")
    with pytest.raises(SpecError, match="gpu-1 has no simulated GPUs"):
        simulation.read(node.session, node.server)
    made, programs = node_files("gpu-1", "L4", 2, smi.version), program_files(build(), smi.version)
    files = made.files | programs.files | SYSTEM_FILES
    unpack(node, files | {"/usr/local/bin/nvidia-smi": smi.path.read_bytes()})
    unpack(node, {}, made.links | programs.links)
    node.run("ldconfig; systemd-tmpfiles --create gpusim.conf")
    return node


def unpack(node: Node, files: Mapping[str, bytes], links: Mapping[str, str] = EMPTY) -> None:
    argv = ["sudo", "-n", "tar", "-x", "--no-same-owner", "-C", "/"]
    done = node.session.run(node.server, argv, stdin=archive(files, links))
    assert done.returncode == 0, done.stderr


def change(node: Node, *requests: Request) -> Scenario:
    scenario = Scenario(
        profile="L4", count=2, driver_version="550.1", cuda_version="12.4", seed="x"
    )
    for request in requests:
        scenario = simulation.change(
            node.session, node.server, lambda s, moment, r=request: inject(s, r, moment)
        )
    return scenario


def test_it_lists_them(node: Node) -> None:
    listed = node.run("nvidia-smi -L").splitlines()
    assert listed == [
        f"GPU {i}: NVIDIA L4 (simulated) (UUID: {gpu_uuid('gpu-1', i)})" for i in range(2)
    ]


def test_a_set_reading_is_in_force_at_once(node: Node) -> None:
    def decide(scenario: Scenario, moment: Moment) -> Change:
        return Change(assign(scenario, [1], ["utilization=95", "temperature=83"], moment))

    simulation.change(node.session, node.server, decide)
    query = "nvidia-smi --query-gpu=utilization.gpu,temperature.gpu --format=csv,noheader,nounits"
    assert node.run(query).splitlines() == ["0, 38", "95, 83"]
    scenario, _, _ = simulation.read(node.session, node.server)
    assert scenario.gpu(1).readings["temperature"] == 83


def test_a_fault_is_in_force_and_in_the_kernel_log_until_it_is_cleared(node: Node) -> None:
    change(node, Request("xid", gpu=0, code=94), Request("lost", gpu=1))
    assert node.run("nvidia-smi -L >/dev/null || echo $?").strip() == "15"
    records = node.run("cat /run/gpusim/kmsg").splitlines()
    heads = [record.split(";")[0].split(",") for record in records]
    assert [int(head[1]) for head in heads] == list(range(len(records)))
    uptime = float(node.run("cut -d' ' -f1 /proc/uptime"))
    assert all(0 < int(head[2]) / 1e6 <= uptime + 1 for head in heads)
    assert records[0].endswith("name=<unknown>, Contained: memory error")
    simulation.change(node.session, node.server, lambda s, m: Change(clear(s, m)))
    assert node.run("nvidia-smi --query-gpu=temperature.gpu --format=csv,noheader").split() == [
        "38", "38",
    ]  # fmt: skip


def test_any_user_can_keep_a_gpu_busy(node: Node) -> None:
    script = """
    runuser -u nobody -- /opt/gpusim/bin/gpusim busy --gpu 0 --seconds 30 --memory-mib 900 &
    sleep 1.3
    nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader,nounits
    kill $!
    """
    assert node.run(script).splitlines() == ["100, 900", "0, 0"]


def test_a_set_reading_wins_over_what_nvidia_smi_has_set(node: Node) -> None:
    node.run("nvidia-smi -i 0 -pl 50 && nvidia-smi -i 1 -pl 51")
    limits = "nvidia-smi --query-gpu=power.limit --format=csv,noheader,nounits"
    assert node.run(limits).split() == ["50.00", "51.00"]
    wanted = ["power_limit=60"]
    simulation.change(
        node.session,
        node.server,
        lambda s, m: Change(assign(s, [0], wanted, m), forget=forgotten([0], wanted)),
    )
    assert node.run(limits).split() == ["60.00", "51.00"]


def test_energy_goes_on_when_the_power_is_set(node: Node) -> None:
    energies = "/opt/gpusim/bin/gpusim energy | cut -d' ' -f1"
    started = time.monotonic()
    before = [int(x) for x in node.run(energies).split()]
    simulation.change(
        node.session, node.server, lambda s, m: Change(assign(s, [0, 1], ["power=70"], m))
    )
    after = [int(x) for x in node.run(energies).split()]
    most = 72_000 * (time.monotonic() - started)
    assert all(0 <= b - a < most for a, b in zip(before, after, strict=True))


def test_the_hardware_of_the_facts_is_there(node: Node) -> None:
    root = "/var/lib/gpusim/root/sys/bus/pci/devices"
    assert node.run(f"cat {root}/0000:0[12]:00.0/device").split() == ["0x27b8"] * 2
    assert node.run(f"basename $(readlink {root}/0000:01:00.0/driver)").strip() == "nvidia"


def test_two_changes_at_once_are_both_made(node: Node) -> None:
    """Somebody else writes between reading and writing."""
    interfered = []

    def decide(scenario: Scenario, moment: Moment) -> Change:
        if not interfered:
            interfered.append(1)
            simulation.change(
                node.session, node.server, lambda s, m: Change(assign(s, [0], ["fan_speed=7"], m))
            )
        return Change(assign(scenario, [0], ["temperature=44"], moment))

    scenario = simulation.change(node.session, node.server, decide)
    assert {"fan_speed": 7.0, "temperature": 44.0}.items() <= scenario.gpu(0).readings.items()
    stored = json.loads(node.run("cat /var/lib/gpusim/scenario.json"))
    assert Scenario.model_validate(stored) == scenario


@pytest.fixture(scope="session")
def toolkit() -> bytes:
    """NVIDIA's nvidia-ctk, from its pinned Go module."""
    return binaries.ensure("nvidia-ctk", print).read_bytes()


def test_the_container_toolkit_describes_them(node: Node, toolkit: bytes) -> None:
    unpack(node, {"/usr/local/bin/nvidia-ctk": toolkit})
    for path, (major, minor) in device_nodes(2).items():
        node.run(f"mknod {path} c {major} {minor}")
    node.run("nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")
    uuids = [f"nvidia.com/gpu={gpu_uuid('gpu-1', i)}" for i in range(2)]
    numbered = [f"nvidia.com/gpu={name}" for name in ("0", "1", "all")]
    assert sorted(node.run("nvidia-ctk cdi list").split()) == sorted([*uuids, *numbered])
    assert "/opt/gpusim/lib/libnvidia-ml.so." in node.run("cat /etc/cdi/nvidia.yaml")
