"""One finding about a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["info", "warning", "critical"]
_SEVERITY: dict[str, Severity] = {
    "fault": "critical",
    "driver_hung": "critical",
    "collective_hung": "critical",
    "process_hung": "critical",
    "leaked_memory": "warning",
    "starved": "warning",
    "throttled": "warning",
    "hot": "warning",
    "reset_due": "warning",
    "xid": "warning",
    "under_filled": "info",
    "unknown": "warning",
}


@dataclass(frozen=True, slots=True)
class State:
    """What it is, why that is believed, and what to do next.

    `cause` says what a starved GPU lacks: disk, cpu, workers, network, memory or other.
    """

    name: str
    evidence: str
    next_step: str = ""
    severity: Severity | Literal[""] = ""
    cause: str = ""

    def __post_init__(self) -> None:
        if not self.severity:
            object.__setattr__(self, "severity", _SEVERITY.get(self.name, "info"))
