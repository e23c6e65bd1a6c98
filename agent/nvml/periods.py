"""How often each reading is taken, in seconds; without pynvml, which only the child loads."""

from __future__ import annotations

FAST, MEDIUM, SLOW = 1, 5, 30
PERIODS: dict[str, int] = {
    "utilization": FAST,
    "memory_activity": FAST,
    "power_watts": FAST,
    "sm_hertz": FAST,
    "clock_events": FAST,
    "energy_joules": FAST,
    "memory_used_bytes": MEDIUM,
    "memory_total_bytes": MEDIUM,
    "pids": MEDIUM,
    "temperature_celsius": MEDIUM,
    "memory_hertz": MEDIUM,
    "power_limit_watts": SLOW,
    "slowdown_celsius": SLOW,
    "ecc_corrected": SLOW,
    "ecc_uncorrected": SLOW,
    "remapped_correctable": SLOW,
    "remapped_uncorrectable": SLOW,
    "remap_pending": SLOW,
    "remap_failed": SLOW,
    "pcie_replays": SLOW,
    "pcie_generation": SLOW,
    "pcie_width": SLOW,
}
