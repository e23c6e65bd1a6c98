"""Runs on the server in a process of its own: asks NVML about one GPU, or about the system.

Standard library only, Python 3.9 or newer. An NVML call may never return, so every question is
printed before it is asked: whoever reads along knows which one hangs, and what was answered before.

Lines: `["ask", function]`, `["answer", key, value]`, `["error", key, function, code]`, `["end"]`.
Layouts and numbers: NVIDIA, NVML API reference.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

NO_LIBRARY, NO_FUNCTION, TOO_SMALL, NOT_FOUND = 12, 13, 7, 6
_UINT, _ULONG = ctypes.c_uint, ctypes.c_ulonglong
# Early 535 drivers fill 32 bytes for a process, others 24: room for the larger.
_PROCESSES, _STRIDES = 256, (24, 32)


class Refused(Exception):
    """NVML answered with an error code."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(function, code)
        self.function, self.code = function, code


class Pci(ctypes.Structure):
    """nvmlPciInfo_t of version 3."""

    _fields_ = [
        ("legacy", ctypes.c_char * 16), ("domain", _UINT), ("bus", _UINT), ("device", _UINT),
        ("device_id", _UINT), ("subsystem_id", _UINT), ("bus_id", ctypes.c_char * 32),
    ]  # fmt: skip


class Memory(ctypes.Structure):
    """nvmlMemory_v2_t: `used` without what the driver keeps for itself."""

    _fields_ = [
        ("version", _UINT), ("total", _ULONG), ("reserved", _ULONG), ("free", _ULONG),
        ("used", _ULONG),
    ]  # fmt: skip


def say(*line: Any) -> None:
    """Print one line at once."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class Nvml:
    """The library, with every call announced."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def call(self, function: str, *arguments: Any, accept: tuple[int, ...] = (0,)) -> None:
        """Call a function.

        Raises:
            Refused: it answered with an error, or the library does not have it.
        """
        say("ask", function)
        try:
            code = getattr(self.library, function)(*arguments)
        except AttributeError:
            code = NO_FUNCTION
        if code not in accept:
            raise Refused(function, code)

    def text(self, function: str, *arguments: Any) -> str:
        """What a function writes into a buffer."""
        buffer = ctypes.create_string_buffer(96)
        self.call(function, *arguments, buffer, 96)
        return buffer.value.decode("utf-8", "replace")

    def numbers(self, function: str, *arguments: Any, count: int = 1, kind: Any = _UINT) -> Any:
        """The numbers that a function writes behind its arguments."""
        values = [kind() for _ in range(count)]
        self.call(function, *arguments, *(ctypes.byref(value) for value in values))
        return [value.value for value in values] if count > 1 else values[0].value


def system(nvml: Nvml) -> dict[str, Callable[[], Any]]:
    """Questions about the whole server."""
    return {
        "driver_version": lambda: nvml.text("nvmlSystemGetDriverVersion"),
        "library_version": lambda: nvml.text("nvmlSystemGetNVMLVersion"),
        "cuda_version": lambda: nvml.numbers("nvmlSystemGetCudaDriverVersion_v2"),
        "count": lambda: nvml.numbers("nvmlDeviceGetCount_v2"),
    }


def gpu(nvml: Nvml, index: int) -> dict[str, Callable[[], Any]]:
    """Questions about one GPU; its identity first."""
    device = ctypes.c_void_p()
    nvml.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device))

    def get(name: str, *arguments: Any, **more: Any) -> Callable[[], Any]:
        return lambda: nvml.numbers(f"nvmlDeviceGet{name}", device, *arguments, **more)

    def ecc(kind: int, since: int) -> Callable[[], Any]:
        return get("TotalEccErrors", kind, since, kind=_ULONG)

    return {
        "uuid": lambda: nvml.text("nvmlDeviceGetUUID", device),
        "name": lambda: nvml.text("nvmlDeviceGetName", device),
        "pci": lambda: pci(nvml, device),
        "persistence": get("PersistenceMode"),
        "mig_mode": get("MigMode", count=2),
        "mig_instances": lambda: mig_instances(nvml, device),
        "ecc_mode": get("EccMode", count=2),
        "ecc_corrected": ecc(0, 0),
        "ecc_uncorrected": ecc(1, 0),
        "ecc_uncorrected_ever": ecc(1, 1),
        "remapped_rows": get("RemappedRows", count=4),
        "retired_pending": get("RetiredPagesPendingStatus"),
        "pcie_generation": get("CurrPcieLinkGeneration"),
        "pcie_generation_max": get("MaxPcieLinkGeneration"),
        "pcie_width": get("CurrPcieLinkWidth"),
        "pcie_width_max": get("MaxPcieLinkWidth"),
        "power_limit_mw": get("EnforcedPowerLimit"),
        "power_limit_default_mw": get("PowerManagementDefaultLimit"),
        "sm_clock_mhz": get("ClockInfo", 1),
        "sm_clock_max_mhz": get("MaxClockInfo", 1),
        "throttle_reasons": lambda: throttle_reasons(nvml, device),
        "memory": lambda: memory(nvml, device),
        "processes": lambda: [pid for kind in ("Compute", "Graphics")
                              for pid in processes(nvml, device, kind)],
    }  # fmt: skip


def mig_instances(nvml: Nvml, device: Any) -> list[list[str]]:
    """Profile and UUID of each MIG device; a name ends in ` MIG 3g.40gb`."""
    found = []
    for index in range(nvml.numbers("nvmlDeviceGetMaxMigDeviceCount", device)):
        part = ctypes.c_void_p()
        try:
            function = "nvmlDeviceGetMigDeviceHandleByIndex"
            nvml.call(function, device, index, ctypes.byref(part))
        except Refused as refused:
            if refused.code != NOT_FOUND:
                raise
            continue
        name = nvml.text("nvmlDeviceGetName", part)
        found.append([name.rpartition(" MIG ")[2], nvml.text("nvmlDeviceGetUUID", part)])
    return found


def pci(nvml: Nvml, device: Any) -> str:
    """The address as the kernel writes it."""
    found = Pci()
    nvml.call("nvmlDeviceGetPciInfo_v3", device, ctypes.byref(found))
    return f"{found.domain:04x}:{found.bus:02x}:{found.device:02x}.0"


def throttle_reasons(nvml: Nvml, device: Any) -> Any:
    """Drivers before 535 know the older name only."""
    try:
        name = "nvmlDeviceGetCurrentClocksEventReasons"
        return nvml.numbers(name, device, kind=_ULONG)
    except Refused as refused:
        if refused.code != NO_FUNCTION:
            raise
        name = "nvmlDeviceGetCurrentClocksThrottleReasons"
        return nvml.numbers(name, device, kind=_ULONG)


def memory(nvml: Nvml, device: Any) -> list[int]:
    """Total and used, in bytes."""
    found = Memory(version=ctypes.sizeof(Memory) | 2 << 24)
    nvml.call("nvmlDeviceGetMemoryInfo_v2", device, ctypes.byref(found))
    return [found.total, found.used]


def processes(nvml: Nvml, device: Any, kind: str) -> list[int]:
    """PIDs; the stride is the one that gives no absurd ones."""
    count = _UINT(_PROCESSES)
    buffer = (ctypes.c_ubyte * (_PROCESSES * max(_STRIDES)))()
    nvml.call(f"nvmlDeviceGet{kind}RunningProcesses_v3", device, ctypes.byref(count), buffer,
              accept=(0, TOO_SMALL))  # fmt: skip
    for stride in _STRIDES:
        pids = [_UINT.from_buffer(buffer, i * stride).value
                for i in range(min(count.value, _PROCESSES))]  # fmt: skip
        if all(0 < pid <= 4194304 for pid in pids):
            return pids
    return [0] * count.value


def ask(questions: dict[str, Callable[[], Any]]) -> None:
    """Ask everything; one refused answer does not stop the others."""
    for key, question in questions.items():
        try:
            say("answer", key, question())
        except Refused as refused:
            say("error", key, refused.function, refused.code)


def main(what: str) -> None:
    """Ask about `system`, or about the GPU with that index."""
    try:
        # As nvidia-smi is named: to be recognised when it hangs and cannot be ended.
        ctypes.CDLL(None).prctl(15, b"gpuferry-nvml", 0, 0, 0)
        try:
            nvml = Nvml(ctypes.CDLL("libnvidia-ml.so.1"))
        except OSError:
            raise Refused("libnvidia-ml.so.1", NO_LIBRARY) from None
        nvml.call("nvmlInit_v2")
        ask(system(nvml) if what == "system" else gpu(nvml, int(what)))
    except Refused as refused:
        say("error", "start", refused.function, refused.code)
    say("end")


if __name__ == "__main__":
    main(sys.argv[1])
