"""What one call gives, and what its failure says about the GPU."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from agent.nvml.getters import GETTERS

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


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_NOT_SUPPORTED])  # fmt: skip
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
