"""Faults of simulated GPUs while the node agent runs."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.agent import ONE, ZERO, RunningAgent
from tests.support.simulated import Simulated, wait_until


def test_one_lost_gpu_is_a_fault_and_the_other_goes_on(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    agent = start()
    gpus.fault("lost", gpu=1)
    assert agent.wait_for(1, "fault") < 15
    assert agent.value("gpu_up", uuid=ONE) == 0
    assert agent.value("gpu_up", uuid=ZERO) == 1
    assert agent.value("gpu_power_watts", uuid=ONE) is None
    wait_until("readings of the other", lambda: agent.value("gpu_power_watts", uuid=ZERO))
    # The Xid came twice (event, two wordings in the log), and is one.
    key = {"uuid": ONE, "pci": "0000:02:00", "xid": "79"}
    assert agent.metrics("gpu_xid_total") == [(key, 1)]
    assert agent.states()[0] != ["fault"]


def test_a_gpu_that_was_lost_before_the_start_is_known_by_the_inventory(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    agent = start()
    wait_until("both", lambda: agent.value("gpu_up", uuid=ONE) == 1)
    assert agent.stop() == 0
    gpus.fault("lost", gpu=1)
    agent.start()
    agent.wait_for(1, "fault")
    assert agent.value("gpu_up", uuid=ONE) == 0
    assert agent.value("node_agent_gpus_expected") == 2


def test_fewer_gpus_after_a_restart_are_missed(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4", 3)
    agent = start()
    wait_until("three", lambda: agent.value("node_agent_gpus_visible") == 3)
    agent.stop()
    gpus.make("L4", 2)
    agent.start()
    wait_until("two", lambda: agent.value("node_agent_gpus_visible") == 2)
    assert agent.value("node_agent_gpus_expected") == 3
    agent.wait_for(2, "fault")


@pytest.mark.parametrize("function", ["nvmlDeviceGetPowerUsage", "nvmlDeviceGetTemperature"])
def test_a_hung_driver_is_reported_in_time_and_scrapes_go_on(
    gpus: Simulated, start: Callable[..., RunningAgent], function: str
) -> None:
    gpus.make("L4")
    agent = start()
    wait_until("readings", lambda: agent.value("gpu_power_watts", uuid=ZERO))
    gpus.fault("hang", function=function)
    seconds = agent.wait_for(0, "driver_hung", 20)
    assert seconds <= 15, f"{seconds:.1f} s"
    told = json.loads(agent.get("/state"))
    assert function in told["gpus"][0]["states"][0]["evidence"]
    assert agent.value("gpu_power_watts", uuid=ZERO) is None, "nothing stale"
    assert agent.value("gpu_up", uuid=ZERO) == 0
    age = agent.value("node_agent_snapshot_age_seconds")
    assert age is not None
    assert age > 9
    # Restarted readers hang, too, and it stays so.
    wait_until("another reader", lambda: (agent.value("node_agent_reader_starts_total") or 0) >= 2)
    assert agent.states()[0] == ["driver_hung"]
    gpus.clear()
    wait_until("readings again", lambda: agent.value("gpu_power_watts", uuid=ZERO), 40)
    assert agent.states()[0] != ["driver_hung"]
    unknown = agent.value("gpu_use_seconds_total", uuid=ZERO, use="unknown")
    assert unknown is not None
    assert unknown > 5, "nobody saw what the GPU did meanwhile"


def test_a_driver_that_hangs_from_the_start_is_reported_too(gpus: Simulated) -> None:
    gpus.make("L4")
    gpus.fault("hang", function="nvmlDeviceGetUUID")
    started = time.monotonic()
    agent = RunningAgent(gpus)
    wait_until("hung", lambda: agent.value("node_agent_driver", status="hung"), 20)
    assert time.monotonic() - started < 15


def test_it_stops_while_the_driver_hangs(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    agent = start()
    gpus.fault("hang", function="nvmlDeviceGetPowerUsage")
    time.sleep(1.5)
    started = time.monotonic()
    assert agent.stop() == 0
    assert time.monotonic() - started < 5


def test_the_reader_dies_with_an_agent_that_is_killed(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    agent = start()
    (child,) = agent.children()
    agent.process.send_signal(signal.SIGKILL)
    agent.process.wait()
    wait_until("no reader", lambda: not Path(f"/proc/{child}").exists()
               or " Z " in Path(f"/proc/{child}/stat").read_text())  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "words"),
    [("driver-not-loaded", "Driver Not Loaded"), ("version-mismatch", "version mismatch")],
)
def test_a_driver_that_refuses_is_a_fault_in_its_own_words(
    gpus: Simulated, start: Callable[..., RunningAgent], kind: str, words: str
) -> None:
    gpus.make("L4")
    agent = start()
    agent.stop()
    gpus.fault(kind)
    agent.start()
    agent.wait_for(0, "fault")
    evidence = json.loads(agent.get("/state"))["gpus"][0]["states"][0]["evidence"]
    assert words.lower() in evidence.lower()
    starts = agent.value("node_agent_reader_starts_total") or 0
    assert starts < 5, "retried slowly (269 restarts in homelab#4110)"
    gpus.clear()
    wait_until("readings", lambda: agent.value("gpu_power_watts", uuid=ZERO), 30)


def test_a_library_that_comes_later_is_found(gpus: Simulated, built: Path) -> None:
    """nvidia_gpu_exporter#142: one failure at the start, and never again."""
    gpus.make("L4")
    scenario = gpus.folder / "scenario"
    scenario.rename(gpus.folder / "away")
    agent = RunningAgent(gpus)
    time.sleep(3)
    assert not agent.metrics("gpu_up")
    (gpus.folder / "away").rename(scenario)
    wait_until("readings", lambda: agent.value("gpu_power_watts", uuid=ZERO), 30)


def test_an_xid_is_told_once_and_not_again_after_a_restart(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    agent = start()
    gpus.fault("xid", gpu=0, code=119)
    agent.wait_for(0, "fault")
    time.sleep(2.5)
    key = {"uuid": ZERO, "pci": "0000:01:00", "xid": "119"}
    assert agent.metrics("gpu_xid_total") == [(key, 1)]
    said = agent.log.read_text().count("Xid 119")
    agent.process.send_signal(signal.SIGKILL)
    agent.process.wait()
    agent.start()
    agent.wait_for(0, "fault")
    assert agent.metrics("gpu_xid_total") == [(key, 1)]
    assert said == 1


def test_ecc_and_remapped_rows_are_seen_within_their_period(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("H100")
    agent = start()
    gpus.fault("remap-pending", gpu=0)
    wait_until("the row", lambda: agent.value("gpu_memory_remap_pending", uuid=ZERO) == 1, 40)
    agent.wait_for(0, "reset_due")


def test_an_event_wait_that_returns_at_once_makes_no_busy_loop(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    """k8s-test-infra#535"""
    gpus.make("H100", 8)
    agent = start()
    first = agent.value("node_agent_cpu_seconds_total") or 0
    time.sleep(8)
    used = (agent.value("node_agent_cpu_seconds_total") or 0) - first
    assert used / 8 < 0.03, f"{100 * used / 8:.1f} % of a core"
