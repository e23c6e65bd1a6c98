"""Surveys for tests of judgements: a healthy server with real L4, and what differs from it."""

from __future__ import annotations

from typing import Any

from gpuferry.checking.gpu.survey import Survey, Transcript

VERSION = "550.163.01"
HEALTHY: dict[str, Any] = {
    "persistence": 1,
    "mig_mode": [0, 0],
    "mig_instances": [],
    "ecc_mode": [1, 1],
    "ecc_corrected": 0,
    "ecc_uncorrected": 0,
    "ecc_uncorrected_ever": 0,
    "remapped_rows": [0, 0, 0, 0],
    "pcie_generation": 1,
    "pcie_generation_max": 4,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "power_limit_mw": 72000,
    "power_limit_default_mw": 72000,
    "sm_clock_mhz": 210,
    "sm_clock_max_mhz": 2040,
    "throttle_reasons": 1,
    "memory": [23034 << 20, 0],
    "processes": [],
}


def address(index: int) -> str:
    return f"0000:{index + 1:02x}:00.0"


def gpu(index: int = 0, *, name: str = "NVIDIA L4", **values: Any) -> Transcript:
    """One GPU; an integer in braces, `{3}`, stands for NVML's return code instead of a value."""
    known = {"uuid": f"GPU-{index}", "name": name, "pci": address(index), **HEALTHY, **values}
    errors = {key: ("nvml", min(code)) for key, code in known.items() if isinstance(code, set)}
    there = {key: value for key, value in known.items() if key not in errors}
    return Transcript(values=there, errors=errors)


def lost() -> Transcript:
    return Transcript(errors={"start": ("nvmlDeviceGetHandleByIndex_v2", 15)})


def survey(
    *gpus: Transcript, device: str = "27b8", on_pci: int | None = None, **more: Any
) -> Survey:
    """A survey; `more` replaces what is at the top level, `facts` and `system` single entries."""
    count = len(gpus) if on_pci is None else on_pci
    facts = {
        "pci": [
            {"address": address(i), "device": device, "class": "030200", "driver": "nvidia"}
            for i in range(count)
        ],
        "module": {"loaded": True, "version": VERSION, "disk_version": VERSION},
        "library": {"version": VERSION},
        "boot": {"uptime_seconds": 86400},
        **more.pop("facts", {}),
    }
    answers = {"driver_version": VERSION, "cuda_version": 12040, "count": len(gpus)}
    system = more.pop("system", Transcript(values=answers))
    document = {
        "facts": facts,
        "nvml": {"system": system, "gpus": list(gpus)},
        "smi": {"state": "ok", "code": 0, "out": f"| NVIDIA-SMI {VERSION}  ", "seconds": 0.1},
        "kernel_log": {"source": "journalctl"},
        **more,
    }
    return Survey.model_validate(document)
