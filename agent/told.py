"""The page `/state`: what every GPU does and reads, for people and for `ferry top`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from agent import accounting
from agent.disks import Disks
from agent.gpu import Gpu
from agent.observer import Observer

_READINGS = (
    "utilization",
    "power_watts",
    "power_limit_watts",
    "temperature_celsius",
    "memory_used_bytes",
    "memory_total_bytes",
)


def state(observer: Observer, disks: Disks, now: float) -> dict[str, Any]:
    """Plain values, SI units, ratios 0 to 1; what is not known is None. Called under the lock."""
    sampled = observer.sampled_at
    return {
        "driver": asdict(observer.driver),
        "age_seconds": None if sampled is None else now - sampled,
        "expected": observer.expected,
        "visible": observer.visible,
        "gpus": [_gpu(observer, gpu, now) for gpu in sorted(observer.gpus.values(), key=_index)],
        "stuck_disks": sorted(disks.stuck()),
    }


def _index(gpu: Gpu) -> int:
    return gpu.index


def _gpu(observer: Observer, gpu: Gpu, now: float) -> dict[str, Any]:
    answers = observer.driver.status == "ok"
    account = observer.accounts.get(gpu.uuid)
    return {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "name": gpu.name,
        "readings": {name: gpu.value(name, now) if answers else None for name in _READINGS},
        "pids": gpu.value("pids", now) if answers else None,
        "seconds": accounting.uses(account) if account else {},
        "states": [
            {
                **asdict(found),
                "for_seconds": now - observer.since.get((gpu.uuid, found.name), now),
            }
            for found in observer.states.get(gpu.uuid, [])
        ],
        "xids": [asdict(x) for x in observer.book.of(gpu.pci, now)],
    }
