"""Real processes keep simulated GPUs busy: the true answer is known."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.simulated import Client, Simulated, wait_until

UTILIZATION = "n.nvmlDeviceGetUtilizationRates(g[0]).gpu"
ENERGY = "n.nvmlDeviceGetTotalEnergyConsumption(g[0])"
PIDS = "[p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(g[0])]"


def sampled(client: Client, seconds: float) -> float:
    """Mean of the counter, read ten times a second after the first second."""
    time.sleep(1.1)
    values = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        values.append(client(UTILIZATION))
        time.sleep(0.1)
    return float(sum(values)) / len(values)


def test_the_counter_is_the_average_of_the_last_second(gpus: Simulated) -> None:
    client = gpus.make().client()
    assert client(UTILIZATION) == 0
    started = time.monotonic()
    process = gpus.busy("--gpu", "0", "--seconds", "60", "--util", "90")
    wait_until("a rising counter", lambda: 0 < client(UTILIZATION) < 90)
    wait_until("the whole load", lambda: client(UTILIZATION) == 90)
    assert time.monotonic() - started > 0.9
    process.terminate()
    process.wait()
    assert 20 < client(UTILIZATION) <= 90, "what was done in the last second still counts"
    wait_until("an idle GPU", lambda: client(UTILIZATION) == 0, 3)


LOOP = """
import time
from gpuferry.simulation.busy import Job
with Job(gpu=0, memory_mib=321) as job:
    print("ready", flush=True)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with job.step():
            time.sleep({busy})
        time.sleep({idle})
"""


@pytest.mark.parametrize(("busy", "idle"), [(0.006, 0.014), (0.3, 0.1), (0.0005, 0.0015)])
def test_a_training_loop_has_the_utilization_of_its_steps(
    gpus: Simulated, busy: float, idle: float
) -> None:
    client = gpus.make().client()
    argv = [sys.executable, "-c", LOOP.format(busy=busy, idle=idle)]
    process = subprocess.Popen(argv, env=gpus.environment, stdout=subprocess.PIPE, text=True)
    gpus.clients.append(process)
    assert process.stdout is not None
    process.stdout.readline()
    # A sleep takes up to 0.1 ms longer than asked for, more on a busy machine.
    slack = 100 * 0.0004 / (busy + idle)
    assert sampled(client, 2) == pytest.approx(100 * busy / (busy + idle), abs=4 + slack)
    assert client(PIDS) == [process.pid]
    used = "n.nvmlDeviceGetMemoryInfo(g[0], n.nvmlMemory_v2).used"
    assert client(used) == 321 << 20


def test_power_and_temperature_follow_the_load(gpus: Simulated) -> None:
    client = gpus.make().client()
    power, celsius = "n.nvmlDeviceGetPowerUsage(g[0])", "n.nvmlDeviceGetTemperature(g[0], 0)"
    clock, reasons = (
        "n.nvmlDeviceGetClockInfo(g[0], 1)",
        ("n.nvmlDeviceGetCurrentClocksThrottleReasons(g[0])"),
    )
    assert [client(x) for x in (power, celsius, clock, reasons)] == [16300, 38, 210, 1]
    gpus.busy("--gpu", "0", "--seconds", "60")
    wait_until("full power", lambda: client(power) == 71500)
    assert client(clock) == 2040
    assert client(reasons) == 0
    before = client(celsius)
    wait_until("a warmer GPU", lambda: client(celsius) > before + 3)
    assert client("n.nvmlDeviceGetPowerUsage(g[1])") == 16300


def test_energy_is_the_integral_of_power_and_never_falls(gpus: Simulated) -> None:
    client = gpus.make().client()
    begin, at = client(ENERGY), time.monotonic()
    process = gpus.busy("--gpu", "0", "--seconds", "60")
    readings = []
    while time.monotonic() < at + 2:
        readings.append(client(ENERGY))
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    readings += [client(ENERGY) for _ in range(50)]
    assert readings == sorted(readings)
    joules = (client(ENERGY) - begin) / 1000
    seconds = time.monotonic() - at
    assert 16.3 * seconds < joules <= 71.5 * seconds + 1
    assert joules == pytest.approx(71.5 * seconds, rel=0.2)
    gpus.set("power=50")
    after, at = client(ENERGY), time.monotonic()
    assert after >= readings[-1]
    time.sleep(0.5)
    assert client(ENERGY) - after == pytest.approx(50_000 * (time.monotonic() - at), rel=0.3)


def test_the_energy_counter_can_be_reset(gpus: Simulated) -> None:
    client = gpus.make().client()
    assert client(ENERGY) > 100_000
    gpus.fault("energy-reset", gpu=0)
    assert client(ENERGY) < 10_000
    assert client("n.nvmlDeviceGetTotalEnergyConsumption(g[1])") > 100_000


def test_a_killed_process_leaves_the_list_and_frees_its_memory(gpus: Simulated) -> None:
    client = gpus.make().client()
    process = gpus.busy("--gpu", "0", "--seconds", "60", "--memory-mib", "5000")
    wait_until("the process", lambda: client(PIDS) == [process.pid])
    name = f"n.nvmlSystemGetProcessName({process.pid})"
    assert client(name).endswith("gpusim")
    process.kill()
    process.wait()
    assert client(PIDS) == []
    assert client("n.nvmlDeviceGetMemoryInfo(g[0], n.nvmlMemory_v2).used") == 0


def test_a_process_of_the_scenario_is_listed_while_it_lives_or_for_ever(gpus: Simulated) -> None:
    from gpuferry.simulation.scenario import Gpu, Process

    process = gpus.make().busy("--gpu", "1", "--seconds", "60")
    listed = [Process(pid=process.pid, memory_mib=7), Process(pid=4194303, memory_mib=9, keep=True)]
    gone = Process(pid=4194302)
    gpus.put(gpus.scenario.with_gpu(0, Gpu(processes=[*listed, gone])))
    client = gpus.client()
    assert client(PIDS) == [process.pid, 4194303]
    process.kill()
    process.wait()
    assert client(PIDS) == [4194303]


def test_leaked_memory_has_no_process(gpus: Simulated) -> None:
    client = gpus.make().client()
    gpus.fault("memory-leak", gpu=0, count=777)
    assert client(PIDS) == []
    assert client("n.nvmlDeviceGetMemoryInfo(g[0], n.nvmlMemory_v2).used") == 777 << 20


def test_marks_of_the_long_dead_are_tidied_away_and_their_energy_kept(gpus: Simulated) -> None:
    gpus.make()
    for _ in range(3):
        assert gpus.busy("--gpu", "0", "--seconds", "0.2").wait() == 0
    folder = gpus.folder / "run/busy"
    marks = list(folder.iterdir())
    assert len(marks) == 3
    busy_before = gpus.moment().energy[0][1]
    # Words 9 to 10 hold when it was last touched: an hour ago.
    for mark in marks:
        data = bytearray(mark.read_bytes())
        data[80:88] = (1).to_bytes(8, "little")
        mark.write_bytes(data)
    gpus.busy("--gpu", "0", "--seconds", "0").wait()
    assert len(list(folder.iterdir())) == 1
    assert gpus.moment().energy[0][1] == pytest.approx(busy_before, rel=0.01)


def test_wrong_use_is_said(gpus: Simulated) -> None:
    program = str(gpus.make().built / "bin/gpusim")
    for arguments in (["--gpu", "99"], ["--gpu", "0"], ["--gpu", "0", "--seconds", "x"]):
        assert gpus.run([program, "busy", *arguments]).returncode == 2
    environment = {**gpus.environment, "GPUSIM_RUN_DIR": "/proc/none"}
    argv = [program, "busy", "--gpu", "0", "--seconds", "1"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "/proc/none/busy" in done.stderr
    assert os.getpid() not in gpus.make().client()(PIDS)
