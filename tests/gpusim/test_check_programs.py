"""The programs that GPU checks send to a server, run here against real libraries."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuferry.checking.gpu import survey
from gpuferry.checking.gpu.survey import Transcript
from gpuferry.driver.gather import gatherer
from tests.support.simulated import Simulated

PROGRAMS = Path(survey.__file__).with_name("on_server")


@pytest.fixture
def on_server(monkeypatch: pytest.MonkeyPatch) -> dict:
    """The survey program's functions, loaded as on a server."""
    gatherer()
    modules = sys.modules["ansible.module_utils"]
    for name in ("gpu_apt", "gpu_facts", "gpu_host"):
        monkeypatch.setattr(
            modules, name, sys.modules[f"ansible.module_utils.{name}"], raising=False
        )
    space: dict = {"__name__": "survey"}
    exec(compile((PROGRAMS / "survey.py").read_text(), "survey", "exec"), space)
    return space


@pytest.fixture
def ask(gpus: Simulated, on_server: dict, monkeypatch: pytest.MonkeyPatch):
    """Ask NVML as the survey does, in a process of its own."""
    for name, value in gpus.environment.items():
        monkeypatch.setenv(name, value)
    source = (PROGRAMS / "nvml.py").read_text()

    def run(what: str, seconds: float = 5) -> Transcript:
        # -I keeps LD_LIBRARY_PATH: it is the loader's, not Python's.
        done = on_server["run_program"](source, what, seconds)
        return Transcript.model_validate(on_server["transcript"](done))

    return run


def test_the_system_tells_versions_and_number(gpus: Simulated, ask) -> None:
    gpus.make("L4", 2)
    assert ask("system").values == {
        "driver_version": "550.163.01",
        "library_version": "12.550.163.01",
        "cuda_version": 12040,
        "count": 2,
    }


def test_a_gpu_tells_every_reading(gpus: Simulated, ask) -> None:
    gpus.make("L4", 2)
    gpus.set("memory_used=900", "ecc_dram_volatile_corrected=3", "ecc_dram_volatile_uncorrected=4",
             "ecc_dram_aggregate_uncorrected=5", "remapped_correctable=6", "remapped_failed=1",
             "pcie_generation=2", "pcie_width=8", "power_limit=60", "throttle_reasons=0x40",
             "persistence=1", gpu=1)  # fmt: skip
    answer = ask("1")
    assert not answer.errors.keys() - {"retired_pending", "mig_mode"}
    values = answer.values
    expected = {
        "name": "NVIDIA L4 (simulated)",
        "pci": "0000:02:00.0",
        "persistence": 1,
        "ecc_mode": [1, 1],
        "ecc_corrected": 3,
        "ecc_uncorrected": 4,
        "ecc_uncorrected_ever": 5,
        "remapped_rows": [6, 0, 0, 1],
        "pcie_generation": 2,
        "pcie_generation_max": 4,
        "pcie_width": 8,
        "pcie_width_max": 16,
        "power_limit_mw": 60000,
        "power_limit_default_mw": 72000,
        "sm_clock_max_mhz": 2040,
        "throttle_reasons": 0x40,
        "memory": [23034 << 20, 900 << 20],
        "processes": [],
    }
    assert {key: values[key] for key in expected} == expected
    assert values["uuid"].startswith("GPU-")


@pytest.mark.parametrize("model", ["T4", "V100", "H100", "RTX 4090", "B200"])
def test_no_model_breaks_the_program(gpus: Simulated, ask, model: str) -> None:
    gpus.make(model, 1)
    answer = ask("0")
    assert {"uuid", "name", "pci", "memory"} <= answer.values.keys()
    assert (answer.hung, answer.died) == ("", "")
    assert {code for _, code in answer.errors.values()} <= {3}


@pytest.mark.parametrize("stride", [24, 32])
def test_processes_are_told_whatever_the_driver_s_struct(gpus: Simulated, ask, stride: int) -> None:
    gpus.make("L4", 1)
    gpus.put(gpus.scenario.model_copy(update={"process_stride": stride}))
    jobs = [gpus.busy("--gpu", "0", "--seconds", "60") for _ in range(2)]
    deadline = time.monotonic() + 10
    while (found := sorted(ask("0").values["processes"])) != sorted(job.pid for job in jobs):
        assert time.monotonic() < deadline, found


def test_the_older_name_of_the_throttle_reasons_is_known_too(gpus: Simulated, ask) -> None:
    gpus.make("L4", 1).fault("absent", function="nvmlDeviceGetCurrentClocksEventReasons")
    assert ask("0").values["throttle_reasons"] == 1


def test_a_hanging_function_is_named_and_ended_in_time(gpus: Simulated, ask) -> None:
    gpus.make("L4", 2).fault("hang", function="nvmlDeviceGetMemoryInfo_v2", gpu=1)
    started = time.monotonic()
    answer = ask("1", 1)
    assert time.monotonic() - started < 5
    assert answer.hung == "nvmlDeviceGetMemoryInfo_v2"
    assert answer.why_not("processes") == "nvmlDeviceGetMemoryInfo_v2 does not return"
    assert "throttle_reasons" in answer.values
    assert "memory" in ask("0").values


def test_without_the_library_that_is_said(on_server: dict) -> None:
    done = on_server["run_program"]((PROGRAMS / "nvml.py").read_text(), "system", 5)
    answer = Transcript.model_validate(on_server["transcript"](done))
    assert answer.why_not("count") == ("libnvidia-ml.so.1: the library is not installed (12)")


def test_a_process_that_dies_in_a_call_is_not_taken_for_an_answer(on_server: dict) -> None:
    source = 'print(\'["ask", "nvmlInit_v2"]\', flush=True); import os; os.abort()'
    answer = on_server["transcript"](on_server["run_program"](source, "", 5))
    assert answer["died"] == "nvmlInit_v2"


STUCK = """
#include <sys/prctl.h>
#include <unistd.h>
int main(void) {
  prctl(PR_SET_NAME, "nvidia-smi", 0, 0, 0);
  if (vfork() == 0) { pause(); _exit(0); }
}
"""


def test_beside_a_process_that_nothing_can_end_no_second_one_is_started(
    on_server: dict, tmp_path: Path
) -> None:
    (tmp_path / "stuck.c").write_text(STUCK)
    subprocess.run(["gcc", "-o", tmp_path / "stuck", tmp_path / "stuck.c"], check=True)
    # The parent of a vfork waits in state D until the child ends.
    process = subprocess.Popen([tmp_path / "stuck"], start_new_session=True)
    try:
        deadline = time.monotonic() + 10
        while process.pid not in on_server["stuck"]("nvidia-smi"):
            assert time.monotonic() < deadline
        answer = on_server["smi"](10)
        assert answer["state"] == "hung"
        assert process.pid in answer["stuck"]
        assert answer["seconds"] == 0
    finally:
        subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
        process.wait(10)


# What libcuda does is not to be had without silicon: only that the program asks it rightly.
CUDA = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int device = -1, retained, current, freed;
static unsigned memory[1 << 20];
static const char *mode(void) { const char *m = getenv("FAKE_CUDA"); return m ? m : ""; }
int cuInit(unsigned flags) { if (!strcmp(mode(), "hang")) pause();
  return !strcmp(mode(), "init") ? 100 : flags; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *out, int index) { *out = 40 + index; device = 40 + index; return 0; }
int cuDeviceGetName(char *name, int size, int d) {
  if (d != device || size != 100) return 1; strcpy(name, d == 40 ? "A" : "B"); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int d) {
  if (d != device) return 1; *context = (void *)0x7fff12345678; retained++; return 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { retained--; return d != device; }
int cuCtxSetCurrent(void *context) { current = context == (void *)0x7fff12345678; return !current; }
int cuMemAlloc_v2(unsigned long long *out, size_t bytes) {
  if (!strcmp(mode(), "memory") && device == 41) return 2;
  if (!current || bytes != sizeof memory) return 1;
  *out = (unsigned long long)memory; return 0; }
int cuMemsetD32_v2(unsigned long long to, unsigned value, size_t words) {
  if (to != (unsigned long long)memory || words != 1 << 20) return 1;
  for (size_t i = 0; i < words; i++) memory[i] = value;
  if (!strcmp(mode(), "flip")) memory[77] ^= 4;
  return 0; }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes) {
  memcpy(to, (void *)from, bytes); return 0; }
int cuMemFree_v2(unsigned long long what) { freed++; return what != (unsigned long long)memory; }
int cuGetErrorName(int code, const char **name) {
  *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 100 ? "CUDA_ERROR_NO_DEVICE" : "OTHER";
  return 0; }
"""


@pytest.fixture(scope="module")
def libcuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda")
    (folder / "cuda.c").write_text(CUDA)
    argv = ["gcc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", folder / "cuda.c"]
    subprocess.run(argv, check=True)
    return folder


@pytest.mark.parametrize(
    ("mode", "gpus", "trouble"),
    [
        ("", ["A", "B"], ""),
        ("init", [], "cuInit: CUDA_ERROR_NO_DEVICE (100)"),
        ("memory", ["A"], "GPU 1: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)"),
        ("flip", [], "GPU 0: 1 of 1048576 words came back wrong"),
    ],
)
def test_the_compute_program_asks_the_driver_and_compares(
    libcuda: Path, on_server: dict, monkeypatch: pytest.MonkeyPatch, mode, gpus, trouble
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libcuda))
    monkeypatch.setenv("FAKE_CUDA", mode)
    done = on_server["run_program"]((PROGRAMS / "compute.py").read_text(), "", 20)
    answer = json.loads(done["out"])
    assert (answer["gpus"], answer["trouble"]) == (gpus, trouble)


def test_a_hanging_driver_ends_the_compute_program_in_time(
    libcuda: Path, on_server: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libcuda))
    monkeypatch.setenv("FAKE_CUDA", "hang")
    assert on_server["run_program"]((PROGRAMS / "compute.py").read_text(), "", 1)["state"] == "hung"


def test_without_libcuda_the_compute_program_says_so(on_server: dict) -> None:
    done = on_server["run_program"]((PROGRAMS / "compute.py").read_text(), "", 20)
    assert "libcuda.so.1" in json.loads(done["out"])["trouble"]
