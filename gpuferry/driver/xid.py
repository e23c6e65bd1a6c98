"""Xids: what the driver writes into the kernel's log about faults, and what each asks for.

Pure functions over log lines; the catalogue is `rules/xid.yaml`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict

from agent import xid, xid_lines
from gpuferry.driver.rules import table

Action = Literal[
    "ignore", "restart_app", "update", "workflow", "contact", "reset_gpu", "reboot", "inspect",
    "unknown",
]  # fmt: skip
_SEVERITY: dict[Action, Literal["info", "minor", "major", "critical"]] = {
    "ignore": "info",
    "restart_app": "minor",
    "update": "major",
    "workflow": "major",
    "contact": "major",
    "unknown": "major",
    "reset_gpu": "critical",
    "reboot": "critical",
    "inspect": "critical",
}
_WORDINGS = (xid_lines.XID, xid_lines.SXID, xid_lines.LOST, xid_lines.LOST_SECOND)


class Event(BaseModel):
    """One fault of one device; `code` 0 never occurs. `count`: how often it was said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["xid", "sxid"]
    code: int
    pci: str
    what: str
    action: Action
    severity: Literal["info", "minor", "major", "critical"]
    bucket: str = ""
    pid: int | None = None
    process: str = ""
    line: str
    count: int = 1


def classify(lines: Iterable[str]) -> list[Event]:
    """Events in the order of their first line: kernel log as dmesg, journal or /dev/kmsg gives it.

    Lines that repeat a code for the same device (and process) are one event with a count. A code
    that the catalogue does not know is an event with the action `unknown`, never dropped.
    """
    found: dict[tuple[str, int, str, int | None], Event] = {}
    said: dict[tuple[str, int, str, int | None], Counter[int]] = defaultdict(Counter)
    parser = xid_lines.Parser()
    for line in lines:
        parsed = parser.parse(line)
        event = _make(parsed) if parsed else None
        if event is None:
            continue
        key = (event.kind, event.code, event.pci, event.pid)
        if event.code == 79:
            # Also told without an Xid, before or after it: one GPU is lost only once.
            key = (event.kind, event.code, event.pci, None)
        found.setdefault(key, event)
        # The wordings of one loss come together: it was lost as often as one of them was said.
        wording = next(i for i, sign in enumerate(_WORDINGS) if sign.search(event.line))
        said[key][wording] += 1
    counted = [e.model_copy(update={"count": max(said[k].values())}) for k, e in found.items()]
    return _related(counted)


def worst(events: Iterable[Event]) -> Event | None:
    """The event that asks for most; unknown ones weigh more than ignorable ones."""
    order = list(_SEVERITY)
    return max(events, key=lambda event: order.index(event.action), default=None)


def _make(line: xid_lines.Line) -> Event:
    rules = table("xid")
    asked: Action = xid.action(line, rules)  # type: ignore[assignment]
    return Event(
        kind=line.kind,
        code=line.code,
        pci=line.pci,
        what=xid.what(line, rules),
        action=asked,
        severity=_SEVERITY[asked],
        bucket=rules["codes"].get(line.code, {}).get("bucket", "") if line.kind == "xid" else "",
        pid=line.pid,
        process=line.process,
        line=line.text,
    )


def _related(events: list[Event]) -> list[Event]:
    """Codes whose meaning depends on others of the same GPU."""
    codes: dict[str, set[int]] = {}
    for event in events:
        codes.setdefault(event.pci, set()).add(event.code)
    changed = []
    for event in events:
        asked: Action = event.action
        if event.kind == "xid":
            asked = xid.beside(event.code, asked, codes[event.pci] - {event.code})  # type: ignore[assignment]
        changed.append(event.model_copy(update={"action": asked, "severity": _SEVERITY[asked]}))
    return changed
