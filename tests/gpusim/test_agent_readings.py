"""What the node agent tells of healthy simulated GPUs, and what it leaves out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from agent.nvml.getters import GETTERS
from agent.nvml.periods import PERIODS
from gpuferry.simulation.library import compile_into
from tests.support.agent import ONE, ZERO, RunningAgent
from tests.support.simulated import Simulated, wait_until


def test_every_reading_tells_its_own_value_in_si_units(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("H100").set(
        "utilization=37", "memory_utilization=41", "power=211", "power_limit=607",
        "temperature=53", "temperature_slowdown=89", "clock_sm=1009", "clock_memory=1499",
        "memory_used=5003", "memory_reserved=97", "memory_total=80021", "throttle_reasons=64",
        "ecc_dram_volatile_corrected=13", "ecc_dram_volatile_uncorrected=17",
        "remapped_correctable=3", "remapped_uncorrectable=5", "pcie_replay=19",
        "pcie_generation=4", "pcie_width=8",
    )  # fmt: skip
    agent = start()
    expected = {
        "gpu_utilization_ratio": 0.37,
        "gpu_memory_activity_ratio": 0.41,
        "gpu_power_watts": 211,
        "gpu_power_limit_watts": 607,
        "gpu_temperature_celsius": 53,
        "gpu_temperature_slowdown_celsius": 89,
        "gpu_memory_used_bytes": 5003 << 20,
        "gpu_memory_total_bytes": 80021 << 20,
        "gpu_pcie_generation": 4,
        "gpu_pcie_width": 8,
        "gpu_pcie_replays_total": 19,
        "gpu_up": 1,
    }
    assert {name: agent.value(name, uuid=ZERO) for name in expected} == expected
    assert agent.value("gpu_clock_hertz", uuid=ZERO, clock="sm") == 1009e6
    assert agent.value("gpu_clock_hertz", uuid=ZERO, clock="memory") == 1499e6
    assert agent.value("gpu_memory_errors_total", uuid=ZERO, kind="corrected") == 13
    assert agent.value("gpu_memory_errors_total", uuid=ZERO, kind="uncorrected") == 17
    assert agent.value("gpu_memory_remapped_rows", uuid=ZERO, cause="correctable") == 3
    assert agent.value("gpu_memory_remapped_rows", uuid=ZERO, cause="uncorrectable") == 5
    assert agent.value("gpu_clock_event", uuid=ZERO, reason="hardware_thermal") == 1
    assert agent.value("gpu_clock_event", uuid=ZERO, reason="hardware_slowdown") == 0
    ((labels, _),) = agent.metrics("gpu_info", uuid=ZERO)
    assert labels["name"] == "NVIDIA H100 80GB HBM3 (simulated)"
    assert labels["pci"] == "0000:01:00"
    assert agent.value("node_agent_info", simulated="true") == 1


def test_every_getter_has_a_period_and_every_period_a_getter() -> None:
    assert {name for getter in GETTERS for name in getter.names} == set(PERIODS)


def test_what_is_absent_unsupported_or_implausible_has_no_series(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4").set("power=0")
    gpus.fault("not-supported", function="nvmlDeviceGetTemperature", gpu=0)
    gpus.fault("absent", function="nvmlDeviceGetPcieReplayCounter")
    agent = start()
    for name in ("gpu_temperature_celsius", "gpu_power_watts", "gpu_pcie_replays_total"):
        assert agent.value(name, uuid=ZERO) is None, name
    reasons = {(x["field"], x["reason"]) for x, _ in agent.metrics("gpu_field_unavailable")}
    assert {("temperature_celsius", "not_supported"), ("power_watts", "implausible"),
            ("pcie_replays", "function_not_found")} <= reasons  # fmt: skip
    assert agent.value("gpu_temperature_celsius", uuid=ONE) is not None


def test_a_gpu_that_tells_only_zeros_is_not_idle(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    """gpu-fryer#10"""
    gpus.make("L4").set("utilization=0", "power=0", "temperature=0", "clock_sm=0")
    agent = start()
    agent.wait_for(1, "idle", 30)
    assert agent.states()[0] == ["unknown"]
    assert agent.value("gpu_utilization_ratio", uuid=ZERO) is None
    free = agent.value("gpu_use_seconds_total", uuid=ZERO, use="free")
    assert free == 0


OPTIONAL = sorted({getter.function for getter in GETTERS})


def test_it_works_without_any_of_the_optional_getters(gpus: Simulated, tmp_path: Path) -> None:
    """gpustat#138: one missing symbol killed it. Built without them, one after the other."""
    gpus.make("L4", 1)
    child = (
        "import sys; sys.path.insert(0, '.'); from agent.nvml import child; import mmap; "
        "c = child.Child(mmap.mmap(-1, 128), sys.stdout); ok = c.start(); ok and c.cycle(0)"
    )
    for function in OPTIONAL:
        gpus.fault("absent", function=function)
        if function == "nvmlDeviceGetMemoryInfo_v2":
            # Otherwise the first version answers.
            gpus.fault("absent", function="nvmlDeviceGetMemoryInfo")
        if function == "nvmlDeviceGetComputeRunningProcesses_v3":
            gpus.fault("absent", function="nvmlDeviceGetComputeRunningProcesses_v2")
        done = gpus.run([sys.executable, "-c", child])
        gpus.clear()
        assert done.returncode == 0, f"{function}: {done.stderr}"
        sample = json.loads(done.stdout.splitlines()[1])
        (told,) = sample["gpus"].values()
        assert "error" not in told, function
        missing = {name for g in GETTERS if g.function == function for name in g.names}
        assert missing & set(told["values"]) == set(), function
        assert len(told["values"]) > 5, function


def test_without_its_identity_a_gpu_is_refused_and_not_guessed(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    gpus.fault("absent", function="nvmlDeviceGetUUID")
    agent = start(expected_gpus=2)
    wait_until("two GPUs that cannot be told apart", lambda: len(agent.states()) == 2)
    assert not agent.metrics("gpu_utilization_ratio")
    assert {value for _, value in agent.metrics("gpu_up")} == {0}


def test_a_library_without_the_symbol_at_all(built: Path, tmp_path: Path) -> None:
    """The fault `absent` answers 13; here the loader finds nothing."""
    folder = tmp_path / "own"
    compile_into(folder, "ABSENT=nvmlDeviceGetTemperature")
    gpus = Simulated(folder, tmp_path).make("L4", 1)
    try:
        agent = RunningAgent(gpus)
        wait_until("readings", lambda: agent.value("gpu_power_watts", uuid=ZERO))
        assert agent.value("gpu_temperature_celsius", uuid=ZERO) is None
    finally:
        gpus.end()


def test_a_driver_that_is_left_alone_is_not_called(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    agent = start(nvml=False)
    assert agent.children() == []
    wait_until("off", lambda: agent.value("node_agent_driver", status="off"))
    assert agent.metrics("gpu_utilization_ratio") == []
