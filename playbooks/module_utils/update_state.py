"""What waits to be updated, and whether the server may reboot for it now. Pure.

Standard library only, Python 3.9 or newer: runs on servers, and is tested here.
"""

from __future__ import annotations

import re

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WINDOW = re.compile(r"(?:([A-Z][a-z]{2}(?:,[A-Z][a-z]{2})*) )?(\d{2}):(\d{2})-(\d{2}):(\d{2})")
# How apt names where a version comes from: `Debian-Security:13/stable-security` and, on Ubuntu,
# `Ubuntu:24.04/noble-security`.
SECURITY = re.compile(r"\bDebian-Security:|-security\b")
INSTALL = re.compile(r"(?m)^Inst (\S+) \[[^\]]*\] \((\S+) ([^)]*)\)")


def pending(simulated):
    """`(security, other)`: name to version of what `apt-get -s dist-upgrade` would upgrade.

    What is held or pinned, such as the frozen set, does not appear there.
    """
    security, other = {}, {}
    for name, version, origin in INSTALL.findall(simulated):
        (security if SECURITY.search(origin) else other)[name] = version
    return security, other


def since(known, present, now):
    """When each pending package was first seen, in seconds of the epoch."""
    return {name: known.get(name, now) for name in sorted(present)}


def parse_window(text):
    """`(days, start, end)` with minutes of the day, or None when the text is no window."""
    match = WINDOW.fullmatch(text)
    if not match:
        return None
    days = match.group(1).split(",") if match.group(1) else list(DAYS)
    hours = [int(part) for part in match.groups()[1:]]
    start, end = hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]
    wrong = set(days) - set(DAYS) or hours[0] > 23 or hours[2] > 24 or max(hours[1::2]) > 59
    return None if wrong or start == end or end > 1440 else (days, start, end)


def in_window(window, weekday, minute):
    """Whether a moment is in a window; one that ends before it starts goes past midnight.

    `weekday` is 0 for Monday, `minute` that of the day.
    """
    days, start, end = window
    today, yesterday = DAYS[weekday], DAYS[weekday - 1]
    if start < end:
        return today in days and start <= minute < end
    return (today in days and minute >= start) or (yesterday in days and minute < end)


def newest_kernel(releases):
    """The release that the boot loader starts next: the highest version."""
    return max(releases, key=_numbers, default="")


def _numbers(release):
    return [(0, int(part), "") if part.isdigit() else (1, 0, part)
            for part in re.findall(r"\d+|[A-Za-z]+", release)]  # fmt: skip


def decide(facts):
    """Whether to reboot now, with every reason against it.

    `facts`: `needed` (a reboot is asked for), `window` (text, empty: never), `weekday`, `minute`,
    `users` (who works with GPUs, in words), `containers` and `sessions` (names), `busy` (a package
    manager at work, in words), `driver` (the running kernel has an NVIDIA module), `kernel` (the
    newest one), `kernel_has_driver`.
    """
    if not facts["needed"]:
        return {"reboot": False, "why": ["no reboot is needed"]}
    why = []
    window = parse_window(facts["window"]) if facts["window"] else None
    if window is None:
        why.append("no window is declared (updates.reboot_window)")
    elif not in_window(window, facts["weekday"], facts["minute"]):
        why.append(f"it is not {facts['window']}")
    why += [f"in use: {user}" for user in facts["users"]]
    why += [f"container {name} runs" for name in facts["containers"]]
    why += [f"{name} is logged in" for name in facts["sessions"]]
    if facts["busy"]:
        why.append(f"packages are being installed: {facts['busy']}")
    if facts["driver"] and not facts["kernel_has_driver"]:
        why.append(f"kernel {facts['kernel']}, which would start, has no NVIDIA module")
    return {"reboot": not why, "why": why}


def metrics(state):
    """The figures in Prometheus' text format, for the textfile collector of a node exporter."""
    rows = [
        ("gpuferry_updates_pending", '{kind="security"}', len(state["security"])),
        ("gpuferry_updates_pending", '{kind="other"}', len(state["other"])),
        ("gpuferry_updates_oldest_seconds", "", state["oldest_seconds"]),
        ("gpuferry_reboot_required", "", int(state["reboot_required"])),
        ("gpuferry_updates_read_timestamp_seconds", "", state["at"]),
    ]
    text, seen = "", set()
    for name, labels, value in rows:
        if name not in seen:
            seen.add(name)
            text += f"# TYPE {name} gauge\n"
        text += f"{name}{labels} {int(value)}\n"
    return text
