"""The processes on a GPU and their children, from /proc; command lines are never read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent.samples import Work

_TICKS = os.sysconf("SC_CLK_TCK")
_WAITS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Process:
    """One reading of one process; `start` tells it from another with the same number."""

    pid: int
    parent: int
    state: str
    ticks: int
    start: int


@dataclass(frozen=True)
class Reading:
    """All processes at one moment, and the bytes that those of interest have read."""

    at: float
    processes: dict[int, Process]
    read_bytes: dict[int, int]


class Processes:
    """Reads /proc below a root."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = str(root / "proc")
        self._before: Reading | None = None

    def look(self, listed: Iterable[int]) -> Reading:
        """All processes, and the bytes read by the trees of the listed ones."""
        processes = {}
        for name in os.listdir(self._proc):
            if name.isdigit() and (found := self._process(name)):
                processes[found.pid] = found
        reads: dict[int, int] = {}
        for pid in tree(processes, listed):
            if (value := self._read_bytes(pid)) is not None:
                reads[pid] = value
        return Reading(time.monotonic(), processes, reads)

    def work(self, per_gpu: dict[str, list[int]]) -> dict[str, Work]:
        """What the listed processes of each GPU did since the last call."""
        listed = {pid for pids in per_gpu.values() for pid in pids}
        if not listed:
            self._before = None
            return {uuid: Work() for uuid in per_gpu}
        if not os.path.exists(f"{self._proc}/1"):
            # Mounted with hidepid: of others' processes nothing is known, not that they are gone.
            return {}
        now = self.look(listed)
        found = {uuid: judge(self._before, now, pids) for uuid, pids in per_gpu.items()}
        self._before = now
        return {uuid: self._with_waits(work, now) for uuid, work in found.items()}

    def _process(self, pid: str) -> Process | None:
        """None when it ended in between (node_exporter#1042)."""
        try:
            with open(f"{self._proc}/{pid}/stat", "rb") as handle:
                return parse(handle.read())
        except (OSError, ValueError, IndexError):
            return None

    def _read_bytes(self, pid: int) -> int | None:
        """None without the right to look."""
        try:
            with open(f"{self._proc}/{pid}/io", "rb") as handle:
                for line in handle:
                    if line.startswith(b"read_bytes:"):
                        return int(line.split()[1])
        except (OSError, ValueError):
            return None
        return None

    def _with_waits(self, work: Work, now: Reading) -> Work:
        stuck = [p for p in tree(now.processes, work.pids) if now.processes[p].state == "D"]
        if not stuck:
            return work
        waits = []
        for pid in stuck[:_WAITS_SHOWN]:
            try:
                where = Path(f"{self._proc}/{pid}/wchan").read_text(encoding="ascii").strip()
            except (OSError, ValueError):
                where = ""
            waits.append(f"pid {pid} in {where}" if where not in ("", "0") else f"pid {pid}")
        return Work(**{f: getattr(work, f) for f in Work.__slots__ if f != "waits"},
                    waits=tuple(waits))  # fmt: skip


def parse(data: bytes) -> Process:
    """One line of /proc/PID/stat; the name in it may hold spaces and parentheses."""
    head, _, rest = data.rpartition(b")")
    words = rest.split()
    return Process(
        pid=int(head.split(b" ", 1)[0]),
        parent=int(words[1]),
        state=words[0].decode(),
        ticks=int(words[11]) + int(words[12]),
        start=int(words[19]),
    )


def tree(processes: dict[int, Process], roots: Iterable[int]) -> list[int]:
    """The roots that are there and all their descendants."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: list[int] = []
    waiting = [pid for pid in roots if pid in processes]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.append(pid)
            waiting += children.get(pid, [])
    return sorted(found)


def judge(before: Reading | None, now: Reading, listed: Iterable[int]) -> Work:
    """What the listed processes and their children did between two readings."""
    listed = tuple(listed)
    alive = [p for p in listed if p in now.processes]
    zombies = tuple(p for p in alive if now.processes[p].state == "Z")
    living = tuple(p for p in alive if p not in zombies)
    members = tree(now.processes, living)
    workers = [p for p in members if p not in living]
    cores = {} if before is None else _cores(before, now, members)
    looked_at = workers or members
    states = [now.processes[p].state for p in looked_at]
    share = {s: states.count(s) / len(states) if states else 0.0 for s in "RSD"}
    reads = None
    if before is not None and all(p in now.read_bytes for p in members):
        grown = sum(max(0, now.read_bytes[p] - before.read_bytes.get(p, now.read_bytes[p]))
                    for p in members)  # fmt: skip
        reads = grown / (now.at - before.at)
    own_workers = [cores[p] for p in workers if p in cores]
    return Work(
        pids=living,
        absent=tuple(p for p in listed if p not in now.processes),
        zombies=zombies,
        started=min((now.processes[p].start / _TICKS for p in living), default=None),
        cores=sum(cores.values()) if cores or (before and not members) else None,
        main_cores=max((cores[p] for p in living if p in cores), default=None),
        worker_cores=sum(own_workers) / len(own_workers) if own_workers else None,
        workers=len(workers),
        running=share["R"],
        sleeping=share["S"],
        waiting=share["D"],
        read_bytes=reads,
    )


def _cores(before: Reading, now: Reading, members: Iterable[int]) -> dict[int, float]:
    """Processor time of those that are in both readings, in cores."""
    seconds = max(now.at - before.at, 1e-3)
    found = {}
    for pid in members:
        old, new = before.processes.get(pid), now.processes[pid]
        if old and old.start == new.start:
            found[pid] = max(0, new.ticks - old.ticks) / _TICKS / seconds
        elif not old:
            # Born in between: all that it used, it used since.
            found[pid] = new.ticks / _TICKS / seconds
    return found
