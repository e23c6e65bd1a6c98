"""The audit's sampler reads GPUs through NVML: a job that marks itself busy has a known answer."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gpuferry.audit.measure.row import row_text
from gpuferry.paths import REPOSITORY
from tests.support.simulated import Simulated, wait_until

SAMPLER = REPOSITORY / "gpuferry/audit/measure/sampler.py"


def sample(gpus: Simulated, **arguments: object) -> dict[str, object]:
    script = f"ARGUMENTS = {arguments!r}\n" + SAMPLER.read_text()
    done = subprocess.run(
        [sys.executable, "-"], input=script, env=gpus.environment, capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_memory_and_utilisation_of_a_job_are_found(gpus: Simulated) -> None:
    gpus.make("L4", 2)
    job = gpus.busy("--gpu", "1", "--seconds", "20", "--util", "90", "--memory-mib", "4000")
    client = gpus.client()
    wait_until("the job is seen", lambda: client("n.nvmlDeviceGetComputeRunningProcesses(g[1])"))
    found = sample(gpus, seconds=3, every=0.3, pid=job.pid)
    first, second = found["gpus"]  # type: ignore[misc]
    assert (first["memory"]["peak"], second["memory"]["peak"]) == (0, 4000 << 20)
    assert second["util"]["mean"] == pytest.approx(90, abs=30)  # a busy machine
    text = row_text("job", "train", found)
    assert "peak_vram: 4000 MiB" in text
    assert "gpus_now: 1" in text
    assert "SIMULATED" in text


def test_the_whole_machine_is_measured_without_a_job(gpus: Simulated) -> None:
    gpus.make("H100", 1)
    gpus.set("memory_used=60000", "utilization=55")
    found = sample(gpus, seconds=1, every=0.2)
    (gpu,) = found["gpus"]  # type: ignore[misc]
    assert gpu["memory"]["peak"] == pytest.approx(60000 << 20, rel=0.02)
    assert gpu["util"]["mean"] == pytest.approx(55, abs=2)


def test_a_driver_that_does_not_start_is_not_measured_rather_than_idle(gpus: Simulated) -> None:
    gpus.make("L4", 1)
    gpus.fault("driver-not-loaded")
    found = sample(gpus, seconds=0.5, every=0.2)
    assert found["gpus"] == []
    assert "NVML does not start" in str(found["gpu_absent"])
    assert "GPU: not measured" in row_text("x", "train", found)
