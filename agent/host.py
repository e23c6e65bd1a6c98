"""The server's own counters, read from /proc and /sys below a root; what is absent is None."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from agent.samples import HostPoint

_SECTOR = 512
_MBIT = 125_000


@dataclass(frozen=True)
class Counters:
    """One reading. Microseconds for pressure, jiffies for the processor, bytes else."""

    at: float
    cpu: tuple[int, ...] | None
    pressure: dict[str, int]
    memory_available: float | None
    major_faults: int | None
    disk_bytes: int | None
    received: int | None
    sent: int | None
    link_bytes: float | None


class Host:
    """Reads counters and makes points of two readings."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc, self._sys = root / "proc", root / "sys"
        self._before: Counters | None = None

    def point(self) -> HostPoint | None:
        """Rates since the last call; None at the first."""
        now, before = self.read(), self._before
        self._before = now
        return rates(before, now) if before and now.at > before.at else None

    def read(self) -> Counters:
        """All counters of this moment."""
        received, sent, link = self._network()
        return Counters(
            at=time.monotonic(),
            cpu=self._cpu(),
            pressure={k: v for k in ("cpu", "io", "memory") if (v := self._stalled(k)) is not None},
            memory_available=self._memory(),
            major_faults=self._major_faults(),
            disk_bytes=self._disk(),
            received=received,
            sent=sent,
            link_bytes=link,
        )

    def _lines(self, path: Path) -> list[str]:
        try:
            return path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []

    def _cpu(self) -> tuple[int, ...] | None:
        lines = self._lines(self._proc / "stat")
        return tuple(map(int, lines[0].split()[1:9])) if lines else None

    def _stalled(self, kind: str) -> int | None:
        for line in self._lines(self._proc / "pressure" / kind):
            if line.startswith("some "):
                return int(line.rsplit("total=", 1)[1])
        return None

    def _memory(self) -> float | None:
        found = {}
        for line in self._lines(self._proc / "meminfo")[:8]:
            name, _, rest = line.partition(":")
            found[name] = float(rest.split()[0])
        total, available = found.get("MemTotal"), found.get("MemAvailable")
        return available / total if total and available is not None else None

    def _major_faults(self) -> int | None:
        for line in self._lines(self._proc / "vmstat"):
            if line.startswith("pgmajfault "):
                return int(line.split()[1])
        return None

    def _disk(self) -> int | None:
        """Of whole disks: partitions, RAID, mappers and loops would count the same bytes again."""
        lines = self._lines(self._proc / "diskstats")
        if not lines:
            return None
        total = 0
        for line in lines:
            words = line.split()
            name = words[2]
            if name.startswith(("loop", "ram", "dm-", "md", "zram")):
                continue
            if (self._sys / "block" / name).exists():
                total += (int(words[5]) + int(words[9])) * _SECTOR
        return total

    def _network(self) -> tuple[int | None, int | None, float | None]:
        """Of all interfaces but those inside the server."""
        lines = self._lines(self._proc / "net" / "dev")[2:]
        if not lines:
            return None, None, None
        received = sent = 0
        speeds = []
        for line in lines:
            name, _, rest = line.partition(":")
            name, words = name.strip(), rest.split()
            if name.startswith(("lo", "docker", "veth", "br-", "virbr", "wg", "tun")):
                continue
            received, sent = received + int(words[0]), sent + int(words[8])
            speed = self._lines(self._sys / "class" / "net" / name / "speed")
            if speed and speed[0].lstrip("-").isdigit() and int(speed[0]) > 0:
                speeds.append(int(speed[0]) * _MBIT)
        return received, sent, float(max(speeds)) if speeds else None


def rates(before: Counters, now: Counters) -> HostPoint:
    """What two readings say about the time between them."""
    seconds = now.at - before.at

    def grown(a: int | None, b: int | None) -> float | None:
        return max(0, b - a) / seconds if a is not None and b is not None else None

    idle = iowait = None
    if before.cpu and now.cpu:
        spent = [b - a for a, b in zip(before.cpu, now.cpu, strict=False)]
        if (total := sum(spent)) > 0:
            idle, iowait = max(0, spent[3]) / total, max(0, spent[4]) / total
    pressure = {
        kind: min(1.0, max(0, value - before.pressure[kind]) / 1e6 / seconds)
        for kind, value in now.pressure.items()
        if kind in before.pressure
    }
    return HostPoint(
        at=now.at,
        cpu_idle=idle,
        cpu_iowait=iowait,
        psi_cpu=pressure.get("cpu"),
        psi_io=pressure.get("io"),
        psi_memory=pressure.get("memory"),
        memory_available=now.memory_available,
        major_faults=grown(before.major_faults, now.major_faults),
        disk_bytes=grown(before.disk_bytes, now.disk_bytes),
        received_bytes=grown(before.received, now.received),
        sent_bytes=grown(before.sent, now.sent),
        link_bytes=now.link_bytes,
    )
