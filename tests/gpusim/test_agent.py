"""The node agent on simulated GPUs: real processes, the real pynvml, faults while it runs."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.nvml.getters import GETTERS
from agent.nvml.periods import PERIODS
from gpuferry.simulation.compiled import gpu_uuid
from gpuferry.simulation.library import compile_into
from tests.support.agent import RunningAgent, refused
from tests.support.simulated import Simulated, wait_until

# A window of ten seconds, so that a test does not last minutes.
QUICK = {
    "thresholds": {
        "window_seconds": 10, "leaked_seconds": 10, "hung_seconds": 15, "warm_up_seconds": 10,
        "throttle_hardware_seconds": 10, "hot_seconds": 10,
        # Others use this machine's disks and network, too.
        "moving_bytes_per_second": 1e12,
    }
}  # fmt: skip
ZERO, ONE = gpu_uuid("test", 0), gpu_uuid("test", 1)


@pytest.fixture
def start(gpus: Simulated) -> Callable[..., RunningAgent]:
    def starting(**config: Any) -> RunningAgent:
        agent = RunningAgent(gpus, **{**QUICK, **config})
        if config.get("nvml", True):
            wait_until("an answer of the driver", lambda: agent.value(
                "node_agent_driver", status="starting") is None, 20)  # fmt: skip
        return agent

    return starting


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


def test_a_busy_process_is_seen_and_the_seconds_add_up_over_a_restart(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    gpus.busy("--gpu", "0", "--seconds", "120", "--util", "90")
    agent = start()
    agent.wait_for(0, "working", 30)
    agent.wait_for(1, "idle", 30)
    began = time.monotonic()
    before = uses(agent)
    assert agent.stop() == 0
    time.sleep(4)
    agent.start()
    wait_until("readings", lambda: agent.value("gpu_power_watts", uuid=ZERO))
    time.sleep(2)
    after = uses(agent)
    passed = time.monotonic() - began
    assert sum(after.values()) - sum(before.values()) == pytest.approx(passed, abs=2)
    assert after["unknown"] - before["unknown"] >= 4, "nobody looked"
    assert before["busy"] > 3
    joules = agent.value("gpu_energy_joules_total", uuid=ZERO)
    assert joules is not None
    assert joules > 50 * passed


def uses(agent: RunningAgent) -> dict[str, float]:
    return {x["use"]: v for x, v in agent.metrics("gpu_use_seconds_total", uuid=ZERO)}


def test_leaked_memory_and_a_zombies_memory_are_not_idle(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    gpus.fault("memory-leak", gpu=0, count=4000)
    agent = start()
    agent.wait_for(0, "leaked_memory", 40)
    agent.wait_for(1, "idle", 30)


def test_nonsense_processes_of_an_early_driver_are_left_out(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    for _ in range(3):
        gpus.busy("--gpu", "0", "--seconds", "60")
    gpus.fault("wide-processes")
    agent = start()
    wait_until("processes", lambda: agent.value("gpu_processes", uuid=ZERO))
    assert agent.states()[0] != ["leaked_memory"]


HELD = """
import sys, time
from gpuferry.simulation.busy import Job
with Job(gpu=0, memory_mib=4000) as job:
    print("ready", flush=True)
    time.sleep(120)
"""
# The shell's vfork child sleeps, so the parent is in D (no device, no root needed).
VFORK = r"""
#include <unistd.h>
int main(void) { if (vfork() == 0) { sleep(120); _exit(0); } return 0; }
"""


def test_a_process_that_holds_a_gpu_and_does_nothing_is_hung(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    process = subprocess.Popen(
        [sys.executable, "-c", HELD], env=gpus.environment, stdout=subprocess.PIPE, text=True
    )
    gpus.clients.append(process)
    assert process.stdout is not None
    process.stdout.readline()
    agent = start()
    agent.wait_for(0, "process_hung", 60)
    told = json.loads(agent.get("/state"))["gpus"][0]["states"][0]
    assert str(process.pid) in told["evidence"]
    assert "user space" in told["evidence"]
    # Progress beats the heuristic.
    folder = gpus.folder / "progress"
    folder.mkdir()
    (folder / str(process.pid)).write_text("17")
    agent.wait_for(0, "allocated_idle", 15)


def test_a_process_in_a_kernel_wait_is_told_as_such(
    gpus: Simulated, start: Callable[..., RunningAgent], tmp_path: Path
) -> None:
    from gpuferry.simulation.scenario import Gpu, Process

    source = tmp_path / "stuck.c"
    source.write_text(VFORK)
    subprocess.run(["gcc", "-o", str(tmp_path / "stuck"), str(source)], check=True)
    process = subprocess.Popen([str(tmp_path / "stuck")])
    gpus.clients.append(process)
    gpus.make("L4")
    listed = [Process(pid=process.pid, memory_mib=900)]
    gpus.put(gpus.scenario.with_gpu(0, Gpu(processes=listed)))
    agent = start()
    agent.wait_for(0, "process_hung", 60)
    told = json.loads(agent.get("/state"))["gpus"][0]["states"][0]
    assert re.search(rf"kernel \(pid {process.pid}", told["evidence"]), told
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)


def test_throttling_is_told_beside_the_work(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    gpus.busy("--gpu", "0", "--seconds", "120", "--util", "95")
    gpus.fault("throttle", gpu=0, reason="hw-thermal")
    agent = start()
    agent.wait_for(0, "throttled", 40)
    assert "working" in agent.states()[0]


def test_a_spinning_collective_is_hung(gpus: Simulated, start: Callable[..., RunningAgent]) -> None:
    gpus.make("L4")
    gpus.busy("--gpu", "0", "--seconds", "120", "--util", "100", "--memory-mib", "9000")
    gpus.set("power=15")
    agent = start()
    agent.wait_for(0, "collective_hung", 60)


# The server of pages.


def test_only_who_has_the_token_is_told_and_a_new_one_counts_at_once(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    token = gpus.folder / "token"
    token.write_text("one\n")
    agent = RunningAgent(gpus, token_file=str(token))
    assert [refused(agent, "/metrics", t) for t in ("", "two", "one")] == [401, 401, 200]
    assert refused(agent, "/state") == 401
    assert agent.get("/healthy") == "ok\n"
    assert refused(agent, "/none", "one") == 404
    token.write_text("two\n")
    assert [refused(agent, "/metrics", t) for t in ("one", "two")] == [401, 200]
    token.write_text("")
    assert refused(agent, "/metrics", "") == 401, "an empty token opens nothing"
    token.unlink()
    assert refused(agent, "/metrics", "two") == 401


def test_clients_that_only_sit_there_do_not_keep_others_out_for_long(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    agent = start()
    sitting = [socket.create_connection(("127.0.0.1", agent.port)) for _ in range(40)]
    try:
        wait_until("an answer", lambda: answers(agent), 15)
    finally:
        for connection in sitting:
            connection.close()


def answers(agent: RunningAgent) -> bool:
    try:
        return bool(agent.metrics("node_agent_info"))
    except OSError:
        return False


def test_it_listens_on_nothing_else(gpus: Simulated, start: Callable[..., RunningAgent]) -> None:
    gpus.make("L4")
    agent = start()
    pids = [agent.process.pid, *agent.children()]
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            target = str(link.readlink()) if link.is_symlink() else ""
            inodes |= set(re.findall(r"socket:\[(\d+)\]", target))
    listening = [
        words[1]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if (words := line.split())[3] == "0A" and words[9] in inodes
    ]
    assert listening == [f"0100007F:{agent.port:04X}"]


def test_a_wrong_configuration_ends_with_one_sentence(gpus: Simulated, tmp_path: Path) -> None:
    config = tmp_path / "bad.json"
    config.write_text(json.dumps({"listen": "0.0.0.0"}))
    done = gpus.run([sys.executable, "-m", "agent", str(config)])
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "0.0.0.0" in done.stderr


def test_it_can_be_asked_from_a_shell(gpus: Simulated) -> None:
    gpus.make("L4")
    agent = RunningAgent(gpus, token_file=str(gpus.folder / "token"))
    assert (gpus.folder / "token").stat().st_mode & 0o777 == 0o600
    asking = [sys.executable, "-m", "agent", "ask"]
    config = str(gpus.folder / "agent.json")
    assert "node_agent_info" in gpus.run([*asking, "/metrics", config]).stdout
    assert json.loads(gpus.run([*asking, "/state", config]).stdout)["driver"]
    assert gpus.run([*asking, "/none", config]).returncode == 1
    agent.stop()
    done = gpus.run([*asking, "/state", config])
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "systemctl status gpuferry-agent" in done.stderr


def test_neither_command_lines_nor_environments_are_told(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    secret = "canary-9f31"
    argv = [sys.executable, "-c", HELD, f"--token={secret}"]
    process = subprocess.Popen(argv, env={**gpus.environment, "TOKEN": secret},
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
    gpus.clients.append(process)
    agent = start()
    wait_until("the process", lambda: agent.value("gpu_processes", uuid=ZERO))
    agent.wait_for(0, "allocated_idle", 30)
    agent.stop()
    told = agent.log.read_text() + agent.state_file.read_text()
    assert secret not in told
    agent.start()
    assert secret not in agent.get("/metrics") + agent.get("/state")


def test_processes_that_come_and_go_leave_no_series(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    """nvitop#106"""
    gpus.make("L4")
    agent = start()
    agent.wait_for(0, "idle", 30)
    base = agent.get("/metrics").count("\n")
    for _ in range(30):
        gpus.busy("--gpu", "0", "--seconds", "0.2").wait()
    agent.wait_for(0, "idle", 60)
    assert agent.get("/metrics").count("\n") == base
    assert len(agent.log.read_text().splitlines()) < 20


def test_a_driver_that_is_left_alone_is_not_called(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    agent = start(nvml=False)
    assert agent.children() == []
    wait_until("off", lambda: agent.value("node_agent_driver", status="off"))
    assert agent.metrics("gpu_utilization_ratio") == []


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
