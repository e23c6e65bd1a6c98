"""What the node agent makes of the processes on simulated GPUs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.agent import ZERO, RunningAgent
from tests.support.simulated import Simulated, wait_until


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
