"""What is told beside what a GPU does."""

from __future__ import annotations

from agent.detect.look import covers, fraction, held_seconds, last, mean, stalled
from agent.detect.state import State
from agent.detect.thresholds import Thresholds
from agent.samples import Window

# Bits of NVML's clock event reasons; idle (0x1) and power cap (0x4) are normal.
HARDWARE, THERMAL = 0x8 | 0x40 | 0x80, 0x20
REASONS = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "hardware_power_brake",
    0x100: "display_clocks",
}


def names(mask: int) -> list[str]:
    """Names of the bits that are set; unknown ones as numbers."""
    bits = [1 << i for i in range(mask.bit_length()) if mask >> i & 1]
    return [REASONS.get(bit, f"0x{bit:x}") for bit in bits]


def states(window: Window, limits: Thresholds) -> list[State]:
    """All of them that hold."""
    found = (
        _throttled(window, limits),
        _hot(window, limits),
        _reset_due(window),
        _under_filled(window, limits),
        _told_by_xid(window, limits),
    )
    return [state for state in found if state]


def _throttled(window: Window, limits: Thresholds) -> State | None:
    kinds = (
        (limits.throttle_hardware_seconds, HARDWARE, "throttled_hardware"),
        (limits.throttle_thermal_seconds, THERMAL, "throttled_thermal"),
    )
    for seconds, bits, field in kinds:
        points = last(window, seconds)
        share = mean(getattr(p, field) for p in points)
        if share is not None and covers(window, seconds) and share >= limits.throttle_share:
            seen = 0
            for p in points:
                seen |= p.clock_events & bits
            return State(
                "throttled",
                f"{', '.join(names(seen)) or 'slowed down'} in {fraction(share)} of the last "
                f"{seconds:.0f} s",
                "cooling or power supply: ask the provider; a lower power limit helps meanwhile "
                "(nvidia-smi -pl)",
            )
    return None


def _hot(window: Window, limits: Thresholds) -> State | None:
    def is_hot(celsius: float | None, slowdown: float | None) -> bool:
        if celsius is None or slowdown is None:
            return False
        return celsius >= slowdown - limits.hot_margin_celsius

    held = held_seconds(window, lambda p: is_hot(p.temperature_celsius, p.slowdown_celsius))
    if held < limits.hot_seconds:
        return None
    now = window.points[-1]
    return State(
        "hot",
        f"{now.temperature_celsius:.0f} °C for {held:.0f} s; it slows down at "
        f"{now.slowdown_celsius:.0f} °C",
        "look at fans and airflow, or ask the provider; a lower power limit helps meanwhile",
    )


def _reset_due(window: Window) -> State | None:
    if not window.health.remap_pending:
        return None
    return State(
        "reset_due",
        "a memory row waits to be remapped",
        "reset the GPU when nothing runs: nvidia-smi --gpu-reset",
    )


def _told_by_xid(window: Window, limits: Thresholds) -> State | None:
    """Xids that stop nothing: the job's own faults, and those that somebody has to look up."""
    quiet = ("ignore", "reset_gpu", "reboot", "inspect")
    recent = [x for x in window.health.xids if x.quiet_seconds <= limits.xid_seconds]
    told = [x for x in recent if x.action not in quiet]
    if not told:
        return None
    worst = min(told, key=lambda x: (x.action == "restart_app", x.age_seconds))
    who = f" by pid {worst.pid}" if worst.pid else ""
    evidence = f"Xid {worst.code} ({worst.what}){who} {worst.age_seconds:.0f} s ago: {worst.line}"
    if worst.action == "restart_app":
        return State(
            "job_fault", evidence, "restart the job; when it comes again, look at its code"
        )
    return State("xid", evidence, "look it up in NVIDIA's Xid catalogue, or ask the provider")


def _under_filled(window: Window, limits: Thresholds) -> State | None:
    """The picture of a hung collective, but the job advances: the kernels are tiny."""
    points = last(window, limits.hung_seconds)
    if stalled(window, limits) is not False or not covers(window, limits.hung_seconds):
        return None
    ratios = [p.power_ratio for p in points]
    if any(r is None or r > limits.hung_power_ratio for r in ratios):
        return None
    if any((p.utilization_least or 0) < limits.hung_utilization for p in points):
        return None
    return State(
        "under_filled",
        f"utilisation {fraction(mean(p.utilization for p in points))} at {fraction(mean(ratios))} "
        "of the power limit, and the job advances",
        "try a larger batch, or fuse kernels",
    )
