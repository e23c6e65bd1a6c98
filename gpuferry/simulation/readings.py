"""What a scenario can say about a GPU: names, units, accepted values.

The names are those of `gpusim/src/readings.h`; a test compares both lists.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """One reading. A person gives it in `unit`; the library gets it times `scale`."""

    unit: str
    most: float
    scale: int = 1
    settable: bool = True  # by a person, on a running server


_PERCENT = Reading("%", 100)
_CELSIUS = Reading("°C", 150)
_WATT = Reading("W", 5000, scale=1000)
_MHZ = Reading("MHz", 20000)
_MIB = Reading("MiB", 1 << 24)
_COUNT = Reading("count", (1 << 32) - 1)
_FLAG = Reading("0 or 1", 1)
_FIXED = Reading("number", (1 << 32) - 1, settable=False)
_ENERGY = Reading("mJ, ms, ns", 1e18, settable=False)

READINGS: dict[str, Reading] = {
    # What the GPU is: from its profile.
    **dict.fromkeys(
        (
            "architecture", "brand", "compute_major", "compute_minor", "cores", "multiprocessors",
            "memory_bus_width", "minor_number", "board_id", "module_id", "numa_node",
            "gsp_firmware", "pci_domain", "pci_bus", "pci_device", "pci_device_id",
            "pci_subsystem_id", "mig_instances", "fans", "nvlink_switches",
        ),
        _FIXED,
    ),
    **dict.fromkeys(("energy_base", "energy_since", "energy_marks"), _ENERGY),
    # What it is doing.
    **dict.fromkeys(
        (
            "utilization", "memory_utilization", "encoder_utilization", "decoder_utilization",
            "jpeg_utilization", "ofa_utilization", "fan_speed",
        ),
        _PERCENT,
    ),
    **dict.fromkeys(
        (
            "temperature", "temperature_idle", "temperature_load", "temperature_memory",
            "temperature_shutdown", "temperature_slowdown", "temperature_memory_max",
            "temperature_gpu_max",
        ),
        _CELSIUS,
    ),
    **dict.fromkeys(
        (
            "power", "power_idle", "power_load", "power_limit", "power_limit_default",
            "power_limit_min", "power_limit_max",
        ),
        _WATT,
    ),
    **dict.fromkeys(
        [
            f"clock_{which}{kind}"
            for which in ("graphics", "sm", "memory", "video")
            for kind in ("", "_idle", "_max")
        ]
        + ["clock_graphics_application", "clock_memory_application"],
        _MHZ,
    ),
    **dict.fromkeys(
        (
            "memory_total", "memory_reserved", "memory_used", "memory_leaked", "bar1_total",
            "bar1_used",
        ),
        _MIB,
    ),
    **dict.fromkeys(("throttle_reasons", "throttle_supported"), Reading("bit mask", 0xFFFF)),
    "performance_state": Reading("0 (fastest) to 15", 15),
    "persistence": _FLAG,
    "mig_mode": _FLAG,
    "ecc_mode": _FLAG,
    "display_active": _FLAG,
    "display_mode": _FLAG,
    "compute_mode": Reading("0, 2 or 3", 3),
    # How healthy it is.
    **dict.fromkeys(
        [
            f"ecc_{where}_{since}_{kind}"
            for where in ("dram", "sram")
            for since in ("volatile", "aggregate")
            for kind in ("corrected", "uncorrected")
        ]
        + [
            "remapped_correctable", "remapped_uncorrectable", "retired_corrected",
            "retired_uncorrected", "pcie_replay",
        ],
        _COUNT,
    ),
    **dict.fromkeys(("remapped_pending", "remapped_failed", "retired_pending"), _FLAG),
    **dict.fromkeys(("pcie_generation", "pcie_generation_max"), Reading("1 to 7", 7)),
    **dict.fromkeys(("pcie_width", "pcie_width_max"), Reading("lanes", 32)),
    **dict.fromkeys(("pcie_tx", "pcie_rx"), Reading("KB/s", (1 << 32) - 1)),
    "nvlink_count": Reading("links", 18),
    "nvlink_version": Reading("version", 10),
    "nvlink_speed": Reading("MB/s", 1_000_000),
    "fabric_state": Reading("1 not started, 2 in progress, 3 completed", 3),
}  # fmt: skip


def settable() -> list[str]:
    """Names a person may set, in alphabetical order."""
    return sorted(name for name, reading in READINGS.items() if reading.settable)
