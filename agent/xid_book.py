"""The Xids of this boot, each told once: they come as NVML's events and in the kernel's log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent import xid
from agent.samples import XidEvent
from agent.xid_lines import Line

# Both ways tell of the same fault within seconds; repetitions within a minute are one incident.
SAME_SECONDS = 60.0
KEPT_SECONDS = 3600.0
_MOST = 1000
# NVSwitch errors have numbers of their own, which are no Xids.
_SWITCH = "sxid"


@dataclass(frozen=True)
class Entry:
    """One incident; `at` and `last` are seconds since boot, `clock` the wall's for people."""

    pci: str
    code: int
    kind: str
    action: str
    what: str
    at: float
    last: float
    clock: float
    line: str = ""
    pid: int | None = None


class XidBook:
    """Incidents by GPU, with counts that outlive them."""

    def __init__(self, rules: Mapping[str, Any], boot: str, kept: Mapping[str, Any]) -> None:
        self._rules = rules
        self.counts: dict[str, int] = {str(k): int(v) for k, v in kept.get("counts", {}).items()}
        self.clocks: dict[str, float] = {
            str(k): float(v) for k, v in kept.get("clocks", {}).items()
        }
        same = kept.get("boot") == boot
        self._boot = boot
        self.entries = [Entry(**entry) for entry in kept.get("entries", [])] if same else []

    def add(self, line: Line, at: float, clock: float) -> bool:
        """Note a fault; False when it is one that is known already."""
        # A later line of an incident has its time; the log may be older than the event.
        for number, entry in enumerate(self.entries):
            same = (entry.pci, entry.code, entry.kind) == (line.pci, line.code, line.kind)
            if same and -SAME_SECONDS <= at - entry.last <= SAME_SECONDS:
                text = entry.line or line.text
                pid = line.pid if entry.pid is None else entry.pid
                last = max(entry.last, at)
                if at > entry.last:
                    self.clocks[_key(line)] = clock
                # The line may say what the event could not: 154 names the action.
                asked = entry.action if entry.line else xid.action(line, self._rules)
                self.entries[number] = replace(entry, line=text, pid=pid, last=last, action=asked)
                return False
        action, what = xid.action(line, self._rules), xid.what(line, self._rules)
        self.entries.append(
            Entry(line.pci, line.code, line.kind, action, what, at, at, clock, line.text, line.pid)
        )
        key = _key(line)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.clocks[key] = clock
        return True

    def tidy(self, now: float) -> None:
        """Forget what is an hour old; counts stay."""
        recent = [e for e in self.entries if now - e.last <= KEPT_SECONDS]
        self.entries = recent[-_MOST:]

    def of(self, pci: str, now: float) -> tuple[XidEvent, ...]:
        """The incidents of one GPU, each judged beside the others."""
        own = [e for e in self.entries if e.pci == pci and e.kind == "xid"]
        codes = {e.code for e in own}
        return tuple(
            XidEvent(
                code=e.code,
                action=xid.beside(e.code, e.action, codes - {e.code}),
                what=e.what,
                age_seconds=max(0.0, now - e.at),
                quiet_seconds=max(0.0, now - e.last),
                line=e.line,
                pid=e.pid,
            )
            for e in own
        )

    def plain(self) -> dict[str, Any]:
        """For the state file."""
        return {
            "boot": self._boot,
            "counts": self.counts,
            "clocks": self.clocks,
            "entries": [
                {f: getattr(e, f) for f in Entry.__dataclass_fields__} for e in self.entries
            ],
        }


def _key(line: Line) -> str:
    """Under which its kind is counted."""
    return f"{line.pci} {line.code if line.kind == 'xid' else _SWITCH}"
