"""How the rules look at a window."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from agent.detect.thresholds import Thresholds
from agent.samples import HostPoint, Point, Window

T = TypeVar("T")
# Points further apart than this many of their own lengths have a hole between them.
GAP = 3.0
_COVERED = 0.9


def last(window: Window, seconds: float) -> tuple[Point, ...]:
    """The newest points that together are so long, up to the first hole.

    Counted from the newest one, not from now: between two points the answer stays the same.
    """
    found: list[Point] = []
    edge = window.now
    for point in reversed(window.points):
        newest = found[0].at if found else point.at
        if edge - point.at > GAP * point.seconds or point.at <= newest - seconds:
            break
        found.append(point)
        edge = point.at
    return tuple(reversed(found))


def covers(window: Window, seconds: float) -> bool:
    """Whether the points say something about the whole time."""
    return sum(point.seconds for point in last(window, seconds)) >= _COVERED * seconds


def held_seconds(window: Window, holds: Callable[[Point], bool]) -> float:
    """For how long something has held without a break or a hole, up to now."""
    total, edge = 0.0, window.now
    for point in reversed(window.points):
        if edge - point.at > GAP * point.seconds or not holds(point):
            break
        total += point.seconds
        edge = point.at
    return total


def job_seconds(window: Window) -> float:
    """For how long some process has been there."""
    return held_seconds(window, lambda p: bool(p.work and p.work.pids))


def hosts(window: Window, seconds: float) -> tuple[HostPoint, ...]:
    """The server's points of the last seconds."""
    return tuple(point for point in window.host if point.at > window.now - seconds)


def known(values: Iterable[T | None]) -> list[T]:
    """Those that are not None."""
    return [value for value in values if value is not None]


def mean(values: Iterable[float | None]) -> float | None:
    """Of the known ones; None where none is known."""
    found = known(values)
    return sum(found) / len(found) if found else None


def fraction(value: float | None) -> str:
    """As a percentage, for people."""
    return "unknown" if value is None else f"{100 * value:.0f} %"


def stalled(window: Window, limits: Thresholds) -> bool | None:
    """Whether the job has stopped to advance; None when nothing tells."""
    if window.progress is None:
        return None
    patience = max(limits.hung_seconds, limits.progress_intervals * window.progress.longest_seconds)
    return window.progress.age_seconds >= patience


def moving(window: Window, seconds: float, limits: Thresholds) -> bool | None:
    """Whether the job's processes read, or else the server's disks and network carry, data.

    None when neither is known.
    """
    points = last(window, seconds)
    reads = [p.work.read_bytes for p in points if p.work]
    if reads and None not in reads:
        own = max(known(reads))
        if own >= limits.moving_bytes_per_second:
            return True
    flows = [
        flow
        for h in hosts(window, seconds)
        for flow in known((h.disk_bytes, h.received_bytes, h.sent_bytes))
    ]
    if not flows:
        return None if not reads or None in reads else False
    return max(flows) >= limits.moving_bytes_per_second
