"""What was seen since the dashboard was opened, for charts of stacks without a Prometheus."""

from __future__ import annotations

import threading
from collections import deque

from gpuferry.watch.on_server import SERIES
from gpuferry.watch.view import ServerView

_EVERY_SECONDS = 10.0
_HOURS = 24

Points = dict[str, dict[str, list[list[float]]]]


class Ring:
    """Points of every GPU, one per ten seconds, for a day."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: dict[tuple[str, str], deque[list[float]]] = {}
        self.names: dict[str, str] = {}
        """What people call each GPU (UUID) that was ever seen, also of a server that is silent."""

    def add(self, seen: ServerView) -> None:
        """Take the readings of a view, unless the last ones are newer than ten seconds."""
        assert seen.at is not None
        with self._lock:
            for gpu in seen.gpus:
                self.names[gpu.uuid] = f"{seen.name} GPU {gpu.index}"
                for reading in SERIES:
                    value = getattr(gpu, reading)
                    length = int(_HOURS * 3600 / _EVERY_SECONDS)
                    kept = self._points.setdefault((reading, gpu.uuid), deque(maxlen=length))
                    # Also after the clock was set back.
                    due = not kept or abs(seen.at - kept[-1][0]) >= _EVERY_SECONDS
                    if value is not None and due:
                        kept.append([seen.at, value])

    def points(self, since: float) -> Points:
        """By reading and GPU (UUID): [time, value], oldest first."""
        found: Points = {reading: {} for reading in SERIES}
        with self._lock:
            for (reading, uuid), kept in self._points.items():
                found[reading][uuid] = [point for point in kept if point[0] >= since]
        return found
