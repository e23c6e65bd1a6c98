"""What one call gives, and what its failure says about the GPU."""

from __future__ import annotations

import io
import json
import mmap
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from agent.nvml import child as child_module
from agent.nvml.child import MARK_BYTES, Child
from agent.nvml.getters import GETTERS, Getter

PIDS = next(getter for getter in GETTERS if getter.names == ("pids",))
COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"
GRAPHICS = "nvmlDeviceGetGraphicsRunningProcesses_v3"


def lists(*pids: int) -> Callable[[Any], list[Any]]:
    return lambda handle: [SimpleNamespace(pid=pid) for pid in pids]


def fails(code: int) -> Callable[[Any], Any]:
    def read(handle: Any) -> Any:
        raise pynvml.NVMLError(code)

    return read


def test_a_renderer_is_in_the_list_of_graphics_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, COMPUTE, lists(7))
    monkeypatch.setattr(pynvml, GRAPHICS, lists(9, 7))
    assert PIDS.read(None) == ([7, 9],)


@pytest.mark.parametrize(
    "code", [pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_NOT_SUPPORTED]
)
def test_a_gpu_without_graphics_still_lists_its_jobs(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(pynvml, COMPUTE, lists(7))
    monkeypatch.setattr(pynvml, GRAPHICS, fails(code))
    assert PIDS.read(None) == ([7],)


def test_a_list_that_fails_is_not_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, COMPUTE, lists(7))
    monkeypatch.setattr(pynvml, GRAPHICS, fails(pynvml.NVML_ERROR_NO_PERMISSION))
    with pytest.raises(pynvml.NVMLError):
        PIDS.read(None)


def told(monkeypatch: pytest.MonkeyPatch, *reads: dict[str, Callable[[Any], Any]]) -> list[Any]:
    """What a child tells of one GPU, cycle by cycle, when its calls answer so."""
    out = io.StringIO()
    child = Child(mmap.mmap(-1, MARK_BYTES), out)
    child._handles, child._indices = {"GPU-1": None}, {"GPU-1": 0}
    for number, answers in enumerate(reads):
        getters = tuple(Getter(name, read, (name,)) for name, read in answers.items())
        monkeypatch.setattr(child_module, "GETTERS", getters)
        child.cycle(number)
    return [json.loads(line)["gpus"]["GPU-1"] for line in out.getvalue().splitlines()]


UNKNOWN = fails(pynvml.NVML_ERROR_UNKNOWN)


def test_one_call_with_an_unknown_error_is_one_reading_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (sample,) = told(monkeypatch, {"utilization": lambda _: (0.5,), "energy_joules": UNKNOWN})
    assert sample == {
        "values": {"utilization": 0.5}, "unavailable": {"energy_joules": "error_999"}
    }  # fmt: skip


@pytest.mark.parametrize("code", [15, 16, 999])
def test_a_gpu_all_of_whose_calls_fail_has_failed_and_then_tells_again_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    lacking = {"utilization": lambda _: (0.5,), "energy_joules": fails(3)}
    dead = dict.fromkeys(lacking, fails(code))
    first, failed, again = told(monkeypatch, lacking, dead, lacking)
    assert failed["error"] == code
    assert first == again
