"""Xids since boot, judged by NVIDIA's catalogue."""

from __future__ import annotations

from gpuferry.checking.gpu.judgement import Judgement, not_measured
from gpuferry.checking.gpu.survey import Survey
from gpuferry.driver.xid import Action, Event, classify, worst

_EXPECTED = "no Xid since boot that asks for anything"
_LOOK_UP = "look the Xid up in NVIDIA's catalogue; drain {server} until it is clear"
_STEPS: dict[Action, str] = {
    "update": "see which driver fits: ./ferry plan driver {server}",
    "reset_gpu": "drain {server}, then reset the GPU (sudo nvidia-smi --gpu-reset -i INDEX)",
    "reboot": "drain and reboot {server}; if the fault returns, have the hardware replaced",
    "inspect": "drain {server}; have power and seating of the GPU looked at",
}


def xids(survey: Survey) -> Judgement:
    """Faults that ask nothing of the server pass and are named.

    That is what the catalogue ignores, and what an application did to itself: its next run may
    be fine, and a node is not to be taken out for it (leptonai/gpud PR#987). A code that the
    catalogue does not know is never fine (NVIDIA/NVSentinel#1827).
    """
    log = survey.kernel_log
    if not log.source:
        return not_measured("neither the journal nor dmesg tell the kernel's log", _EXPECTED)
    events = classify(log.lines)
    heaviest = worst(events)
    if heaviest is None:
        return Judgement("pass", "no Xid since boot", _EXPECTED, f"read from {log.source}")
    asking = [event for event in events if event.action not in ("ignore", "restart_app")]
    told = "; ".join(_told(event) for event in asking or events)
    if not asking:
        return Judgement("pass", f"of jobs, not of the GPU: {told}", _EXPECTED, heaviest.line)
    return Judgement(
        "fail", told, _EXPECTED, heaviest.line, heaviest.severity,
        _STEPS.get(heaviest.action, _LOOK_UP),
    )  # fmt: skip


def _told(event: Event) -> str:
    times = f", {event.count} times" if event.count > 1 else ""
    process = f" in {event.process or 'process'} {event.pid}" if event.pid else ""
    kind = "SXid" if event.kind == "sxid" else "Xid"
    return f"{kind} {event.code} of {event.pci}{process}: {event.what}{times}"
