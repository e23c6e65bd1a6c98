"""Faults of the driver and of a GPU: nothing else that it tells can be trusted then."""

from __future__ import annotations

from agent.detect.state import State
from agent.detect.thresholds import Thresholds
from agent.samples import Window, XidEvent

# What an Xid asks for (gpuferry/driver/rules/xid.yaml), where work must not go on.
_STOPS = {
    # A reset is refused while anybody has the GPU open, the agent's reader among them.
    "reset_gpu": "drain, systemctl stop gpuferry-agent, nvidia-smi --gpu-reset, start it again",
    "reboot": "drain and reboot once; when it comes back, ask for the hardware to be inspected",
    "inspect": "have the hardware inspected by the provider",
}
_ERRORS = {
    15: ("the GPU is lost", _STOPS["reboot"]),
    16: ("the GPU requires a reset", _STOPS["reset_gpu"]),
}


def driver(window: Window) -> State | None:
    """The driver does not answer, or refuses."""
    told = window.driver
    if told.status == "hung":
        return State(
            "driver_hung",
            f"{told.detail or 'the driver'} has not returned for {told.silent_seconds:.0f} s",
            "stop new jobs, look for Xids (dmesg | grep NVRM), reboot when jobs cannot be saved",
        )
    if told.status == "failed":
        return State(
            "fault",
            f"NVML does not start: {told.detail}",
            "after an upgrade of the driver: reboot; else ./ferry check",
        )
    if told.status == "off":
        return State("unknown", "reading the GPUs is switched off (nvml: false)", "", "info")
    return None


def gpu(window: Window, limits: Thresholds) -> State | None:
    """The GPU is gone, asks for a reset, or told of a fault."""
    health = window.health
    if not health.seen:
        return State(
            "fault", "the GPU was here before and is no longer found", _STOPS["reboot"], "critical"
        )
    if health.error is not None:
        if health.error_polls < limits.fault_polls:
            return State("unknown", f"one poll failed: {health.error_text}", "wait a second")
        what, step = _ERRORS.get(
            health.error, (f"every call fails: {health.error_text}", _STOPS["reset_gpu"])
        )
        return State("fault", f"{what} (NVML error {health.error})", step)
    recent = [
        x for x in health.xids if x.quiet_seconds <= limits.xid_seconds and x.action in _STOPS
    ]
    if recent:
        # The first is the root: later ones are its consequences (DCGM#235).
        root = max(recent, key=lambda x: x.age_seconds)
        return State(
            "fault",
            f"Xid {root.code} ({root.what}) {root.age_seconds:.0f} s ago{_others(recent)}",
            _STOPS[root.action],
        )
    if health.remap_failed:
        return State("fault", "a memory row could not be remapped", _STOPS["inspect"])
    return None


def _others(recent: list[XidEvent]) -> str:
    return f", {len(recent) - 1} more since" if len(recent) > 1 else ""
