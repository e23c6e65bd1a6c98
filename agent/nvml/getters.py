"""What is read of a GPU, how often, and which values are believed.

A getter that is unsupported, absent or implausible gives no value and a reason, never zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

from agent.nvml.periods import PERIODS

MIB = 1 << 20
_PID_MOST = 1 << 22  # Linux' own limit
# Results that are about the whole GPU: lost, needs a reset.
DEVICE_ERRORS = (pynvml.NVML_ERROR_GPU_IS_LOST, 16)
_REASONS = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: "not_supported",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "function_not_found",
    pynvml.NVML_ERROR_NO_PERMISSION: "no_permission",
}


@dataclass(frozen=True)
class Getter:
    """One call: the readings it gives by name, in the order of its answer."""

    function: str
    read: Callable[[Any], tuple[Any, ...]]
    names: tuple[str, ...]

    @property
    def every(self) -> int:
        """Seconds between two calls."""
        return PERIODS[self.names[0]]


def _memory(handle: Any) -> tuple[int, int]:
    # The first version counts what the driver reserves as used (gpustat#141).
    try:
        info = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except pynvml.NVMLError_FunctionNotFound:
        info = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return info.used, info.total


def _processes(handle: Any) -> tuple[list[int]]:
    # Named with its version: the plain name raises what is no NVMLError on an older library.
    try:
        compute = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    except pynvml.NVMLError_FunctionNotFound:
        compute = pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)
    try:
        # Renderers on Vulkan or EGL are in no list of compute processes.
        graphics = pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3(handle)
    except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_NotSupported):
        graphics = []
    # Early 535 drivers have wider entries than the caller expects: pids 0 and 4294967295.
    return (sorted({int(p.pid) for p in [*compute, *graphics] if 0 < p.pid <= _PID_MOST}),)


def _utilization(handle: Any) -> tuple[float, float]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu / 100, rates.memory / 100


def _ecc(kind: int) -> Callable[[Any], tuple[int]]:
    volatile = pynvml.NVML_VOLATILE_ECC
    return lambda handle: (pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, volatile),)


def _one(function: Callable[..., Any], *arguments: int, factor: float = 1) -> Callable[[Any], Any]:
    return lambda handle: (round(function(handle, *arguments) * factor, 3),)


_SLOWDOWN = pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
GETTERS = (
    Getter("nvmlDeviceGetPowerUsage",
           _one(pynvml.nvmlDeviceGetPowerUsage, factor=1e-3), ("power_watts",)),
    Getter("nvmlDeviceGetClockInfo",
           _one(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM, factor=1e6), ("sm_hertz",)),
    Getter("nvmlDeviceGetUtilizationRates", _utilization, ("utilization", "memory_activity")),
    Getter("nvmlDeviceGetCurrentClocksThrottleReasons",
           _one(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons), ("clock_events",)),
    # Watts are averages of different windows by model; joules are not (zeus#181).
    Getter("nvmlDeviceGetTotalEnergyConsumption",
           _one(pynvml.nvmlDeviceGetTotalEnergyConsumption, factor=1e-3), ("energy_joules",)),
    Getter("nvmlDeviceGetMemoryInfo_v2", _memory, ("memory_used_bytes", "memory_total_bytes")),
    Getter("nvmlDeviceGetComputeRunningProcesses_v3", _processes, ("pids",)),
    Getter("nvmlDeviceGetTemperature",
           _one(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
           ("temperature_celsius",)),
    Getter("nvmlDeviceGetClockInfo",
           _one(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM, factor=1e6),
           ("memory_hertz",)),
    Getter("nvmlDeviceGetEnforcedPowerLimit",
           _one(pynvml.nvmlDeviceGetEnforcedPowerLimit, factor=1e-3), ("power_limit_watts",)),
    Getter("nvmlDeviceGetTemperatureThreshold",
           _one(pynvml.nvmlDeviceGetTemperatureThreshold, _SLOWDOWN), ("slowdown_celsius",)),
    Getter("nvmlDeviceGetTotalEccErrors", _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
           ("ecc_corrected",)),
    Getter("nvmlDeviceGetTotalEccErrors", _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
           ("ecc_uncorrected",)),
    Getter("nvmlDeviceGetRemappedRows",
           lambda handle: tuple(pynvml.nvmlDeviceGetRemappedRows(handle)),
           ("remapped_correctable", "remapped_uncorrectable", "remap_pending", "remap_failed")),
    Getter("nvmlDeviceGetPcieReplayCounter",
           _one(pynvml.nvmlDeviceGetPcieReplayCounter), ("pcie_replays",)),
    Getter("nvmlDeviceGetCurrPcieLinkGeneration",
           _one(pynvml.nvmlDeviceGetCurrPcieLinkGeneration), ("pcie_generation",)),
    Getter("nvmlDeviceGetCurrPcieLinkWidth",
           _one(pynvml.nvmlDeviceGetCurrPcieLinkWidth), ("pcie_width",)),
)  # fmt: skip

# Least and most that is believed; a zero where no device can have one is a driver that lies
# (gpu-fryer#10: 0 °C and 1.8e19 taken for healthy).
_BELIEVED: dict[str, tuple[float, float]] = {
    "utilization": (0, 1),
    "memory_activity": (0, 1),
    "power_watts": (0.001, 3000),
    "power_limit_watts": (1, 3000),
    "sm_hertz": (1e6, 1e10),
    "memory_hertz": (1e6, 1e11),
    "temperature_celsius": (1, 150),
    "slowdown_celsius": (30, 150),
    "clock_events": (0, 1 << 32),
    "energy_joules": (0, 1e15),
    "memory_used_bytes": (0, 1 << 50),
    "memory_total_bytes": (MIB, 1 << 50),
    "pcie_generation": (1, 16),
    "pcie_width": (1, 64),
    "remap_pending": (0, 1),
    "remap_failed": (0, 1),
}
_COUNTERS = (0, 1 << 40)


def believed(values: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Split readings of one moment into those that can be true and the names of the others."""
    doubted = {
        name
        for name, value in values.items()
        if name != "pids"
        and not _BELIEVED.get(name, _COUNTERS)[0] <= value <= _BELIEVED.get(name, _COUNTERS)[1]
    }
    used, total = values.get("memory_used_bytes"), values.get("memory_total_bytes")
    if used is not None and total is not None and used > total:
        doubted |= {"memory_used_bytes", "memory_total_bytes"}
    if "memory_total_bytes" in doubted:
        doubted.add("memory_used_bytes")
    if {"power_watts", "sm_hertz"} <= doubted:
        # A device that draws nothing at no clock is not "0 % busy": nobody looked.
        doubted |= {"utilization", "memory_activity"} & set(values)
    return {name: value for name, value in values.items() if name not in doubted}, doubted


def reason(error: Exception) -> str:
    """Why a getter gave nothing, in a few fixed words."""
    if isinstance(error, pynvml.NVMLError):
        return _REASONS.get(error.value, f"error_{error.value}")
    return type(error).__name__
