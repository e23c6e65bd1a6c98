"""Xids: what the driver writes into the kernel's log about faults, and what each asks for.

Pure functions over log lines; the catalogue is `rules/xid.yaml`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict

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
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\)(?:[^:]*): (\d+)(?:,\s*(.*))?$")
_SXID = re.compile(r"SXid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+),\s*(.*)$")
_PROCESS = re.compile(r"pid='?(<unknown>|\d+)'?(?:,\s*name=(\S+?),)?")
# Two wordings of a lost GPU that name no Xid.
_LOST = re.compile(r"NVRM: GPU ([0-9a-fA-F:.]+): GPU has fallen off the bus")
_LOST_FIRST = re.compile(r"NVRM: The NVIDIA GPU ([0-9a-fA-F:.]+)")
_LOST_SECOND = re.compile(r"fallen off the bus and is not responding to commands")
_RECOVERY = re.compile(r"recovery action changed from .* to .*\((.+)\)", re.I)


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
    lost_address = ""
    for line in lines:
        text = line.rstrip("\n")
        if match := _LOST_FIRST.search(text):
            lost_address = match.group(1)
        event = _event(text)
        if event is None and lost_address and _LOST_SECOND.search(text):
            event = _make("xid", 79, lost_address, "", text)
        if event is None:
            continue
        key = (event.kind, event.code, event.pci, event.pid)
        if event.code == 79:
            # Also told without an Xid, before or after it: one GPU is lost only once.
            key = (event.kind, event.code, event.pci, None)
        found.setdefault(key, event)
        # The wordings of one loss come together: it was lost as often as one of them was said.
        wording = next(i for i, sign in enumerate((_XID, _SXID, _LOST, _LOST_SECOND))
                       if sign.search(text))  # fmt: skip
        said[key][wording] += 1
    counted = [e.model_copy(update={"count": max(said[k].values())}) for k, e in found.items()]
    return _related(counted)


def worst(events: Iterable[Event]) -> Event | None:
    """The event that asks for most; unknown ones weigh more than ignorable ones."""
    order = list(_SEVERITY)
    return max(events, key=lambda event: order.index(event.action), default=None)


def _event(text: str) -> Event | None:
    if match := _XID.search(text):
        return _make("xid", int(match.group(2)), match.group(1), match.group(3) or "", text)
    if match := _SXID.search(text):
        return _make("sxid", int(match.group(2)), match.group(1), match.group(3), text)
    if match := _LOST.search(text):
        return _make("xid", 79, match.group(1), "", text)
    return None


def _make(kind: Literal["xid", "sxid"], code: int, pci: str, rest: str, line: str) -> Event:
    rules = table("xid")
    row = rules["codes"].get(code, {}) if kind == "xid" else {}
    action: Action = row.get("action", "unknown")
    if kind == "sxid":
        action = "ignore" if "non-fatal" in rest.lower() else "workflow"
    elif code in rules["decoded"]["codes"]:
        words = re.search(r"\b(Fatal|Nonfatal)\b", rest)
        action = rules["decoded"][words.group(1)]["action"] if words else action
    elif code == 154 and (asked := _RECOVERY.search(rest)):
        action = rules["recovery"].get(asked.group(1), {}).get("action", "unknown")
    process = _PROCESS.search(rest)
    pid = process.group(1) if process else ""
    return Event(
        kind=kind,
        code=code,
        pci=_address(pci),
        what=row.get("what", "not in the catalogue") if kind == "xid" else "NVSwitch error",
        action=action,
        severity=_SEVERITY[action],
        bucket=row.get("bucket", ""),
        pid=int(pid) if pid.isdigit() else None,
        process=(process.group(2) or "").strip("'<>") if process else "",
        line=line,
    )


def _address(pci: str) -> str:
    """`0000:04:00` of all the ways in which a device is written."""
    address = pci.lower().split(".")[0]
    return address if address.count(":") == 2 else f"0000:{address}"


def _related(events: list[Event]) -> list[Event]:
    """Codes whose meaning depends on others of the same GPU.

    45 is the cleanup after another fault; 48 beside 63, 64 or 95 needs the reset that those lead to
    (NVIDIA's workflows for Xid 45 and 48).
    """
    codes: dict[str, set[int]] = {}
    for event in events:
        codes.setdefault(event.pci, set()).add(event.code)
    changed = []
    for event in events:
        others = codes[event.pci] - {event.code}
        action: Action = event.action
        if event.kind == "xid" and event.code == 45 and others:
            action = "ignore"
        if event.kind == "xid" and event.code == 48 and others & {63, 64, 95}:
            action = "reset_gpu"
        changed.append(event.model_copy(update={"action": action, "severity": _SEVERITY[action]}))
    return changed
