"""One GPU as it is known now: latest readings, points, faults."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.detect.beside import HARDWARE, THERMAL
from agent.nvml.periods import PERIODS
from agent.samples import Health, Point, Work, XidEvent

POINT_SECONDS = 5.0
# Half an hour, the longest that a rule looks back.
_POINTS = 361
# A reading older than this many of its periods (and some seconds) is not told any more.
_STALE_PERIODS, _STALE_SECONDS = 3, 2.0


@dataclass
class Gpu:
    """Mutable; times are the observer's clock."""

    uuid: str
    index: int
    name: str = ""
    pci: str = ""
    seen: bool = True
    latest: dict[str, tuple[float, Any]] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    error: int | None = None
    error_polls: int = 0
    error_text: str = ""
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=_POINTS))
    sampled_at: float | None = None
    _bucket: list[tuple[float | None, float | None, int | None]] = field(default_factory=list)

    def take(self, told: Mapping[str, Any], at: float) -> None:
        """One sample of the child."""
        if "error" in told:
            self.fail(int(told["error"]), str(told.get("text", "")))
            return
        self.error, self.error_polls, self.error_text = None, 0, ""
        values = told["values"]
        self.sampled_at = at
        for name, value in values.items():
            self.latest[name] = (at, value)
        if "unavailable" in told:
            self.unavailable = dict(told["unavailable"])
            for name in self.unavailable:
                self.latest.pop(name, None)
        self._bucket.append(
            (values.get("utilization"), values.get("power_watts"), values.get("clock_events"))
        )

    def fail(self, code: int, text: str) -> None:
        """Every call about it fails: nothing that it told before counts any more."""
        self.error, self.error_text = code, text
        self.error_polls += 1
        self.latest.clear()
        self.unavailable.clear()
        self._bucket.clear()

    def value(self, name: str, now: float) -> Any:
        """A reading that is fresh enough, else None."""
        at, value = self.latest.get(name, (0.0, None))
        if value is None or now - at > _STALE_PERIODS * PERIODS[name] + _STALE_SECONDS:
            return None
        return value

    def condense(self, now: float, work: Work | None) -> None:
        """Make a point of the samples since the last one; none, no point."""
        bucket, self._bucket = self._bucket, []
        if not bucket:
            return
        used = [u for u, _, _ in bucket if u is not None]
        power = [p for _, p, _ in bucket if p is not None]
        masks = [m for _, _, m in bucket if m is not None]
        seen = 0
        for mask in masks:
            seen |= mask
        self.points.append(
            Point(
                at=now,
                seconds=POINT_SECONDS,
                # One that is missing makes the whole unknown: half of a window is no window.
                utilization=sum(used) / len(used) if len(used) == len(bucket) else None,
                utilization_least=min(used) if len(used) == len(bucket) else None,
                utilization_most=max(used) if len(used) == len(bucket) else None,
                power_watts=sum(power) / len(power) if power else None,
                power_limit_watts=self.value("power_limit_watts", now),
                memory_used_bytes=self.value("memory_used_bytes", now),
                temperature_celsius=self.value("temperature_celsius", now),
                slowdown_celsius=self.value("slowdown_celsius", now),
                throttled_hardware=_share(masks, HARDWARE),
                throttled_thermal=_share(masks, THERMAL),
                clock_events=seen,
                work=work,
            )
        )

    def health(self, now: float, xids: tuple[XidEvent, ...]) -> Health:
        """For the detectors."""
        pending, failed = self.value("remap_pending", now), self.value("remap_failed", now)
        return Health(
            error=self.error,
            error_polls=self.error_polls,
            error_text=self.error_text,
            seen=self.seen,
            remap_pending=None if pending is None else bool(pending),
            remap_failed=None if failed is None else bool(failed),
            xids=xids,
        )


def _share(masks: list[int], bits: int) -> float | None:
    return sum(bool(mask & bits) for mask in masks) / len(masks) if masks else None
