"""Judge what a server says about its own updates. Pure.

The thresholds: unattended-upgrades runs once a day with up to an hour of random delay, so what
waits for two days is not being installed; a reboot that is needed may wait for a weekly window.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from gpuferry.checking.recorder import Answer

BACKLOG_SECONDS = 48 * 3600
REBOOT_SECONDS = 8 * 24 * 3600
# The timer runs every quarter of an hour.
STALE_SECONDS = 2 * 3600


def patterns(config: str) -> list[str]:
    """Origins that unattended-upgrades takes, from `apt-config dump`."""
    names = "Origins-Pattern|Allowed-Origins"
    return re.findall(rf'(?m)^Unattended-Upgrade::(?:{names}):: "(.*)";', config)


def foreign(found: list[str]) -> list[str]:
    """Those that let in more than security updates."""
    return [pattern for pattern in found if "security" not in pattern.lower()]


def backlog(state: Mapping[str, Any], now: float) -> Answer:
    """Security updates that wait, and for how long."""
    if not state.get("measured"):
        return Answer("not_measured", "apt could not tell what it would upgrade", "", "")
    age, expected = now - state["at"], f"none for longer than {duration(BACKLOG_SECONDS)}"
    names = ", ".join(sorted(state["security"]))
    oldest = state["oldest_seconds"] + age if state["security"] else 0
    text = f"{len(state['security'])} security updates wait"
    text += f", the oldest for {duration(oldest)}" if oldest else ""
    evidence = f"{names}; " if names else ""
    evidence += f"{len(state['other'])} others wait, which are not installed by themselves"
    if age > STALE_SECONDS:
        return Answer("fail", f"last looked {duration(age)} ago", expected, evidence)
    return _answer(oldest <= BACKLOG_SECONDS, text, expected, evidence)


def reboot(state: Mapping[str, Any], now: float, window: str) -> Answer:
    """Whether an update waits for a reboot, and since when."""
    expected = f"not needed for longer than {duration(REBOOT_SECONDS)}"
    where = f"window: {window}" if window else "no window declared, so never by itself"
    if not state["reboot_required"]:
        return _answer(True, "no reboot is needed", expected, where)
    waited = now - state["reboot_since"]
    packages = ", ".join(state["reboot_packages"]) or "packages that did not say"
    text = f"needed for {duration(waited)}, by {packages}"
    evidence = f"{where}; not yet: {'; '.join(state['decision']['why'])}"
    return _answer(waited <= REBOOT_SECONDS, text, expected, evidence)


def duration(seconds: float) -> str:
    """In the largest unit that is not a fraction: `3 min`, `5 h`, `2 d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (unit == "min" and seconds >= size):
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def _answer(ok: bool, measured: str, expected: str, evidence: str) -> Answer:
    status: Literal["pass", "fail"] = "pass" if ok else "fail"
    return Answer(status, measured, expected, evidence)
