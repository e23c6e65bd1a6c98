"""The node agent against nvitop-exporter: eight simulated H100, a look a second, side by side."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuferry.simulation import build
from tests.bench import state
from tests.support.agent import RunningAgent, free_port
from tests.support.simulated import Simulated, wait_until

GPUS = 8
SECONDS = 60.0
SCRAPES = 500
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Side:
    """One exporter: its processes and its page."""

    pid: int
    url: str

    def processes(self) -> list[int]:
        """It and its children."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]

    def cpu_seconds(self) -> float:
        """Used by all of them so far."""
        total = 0.0
        for pid in self.processes():
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(words[11]) + int(words[12])) / _TICKS
        return total

    def resident_mib(self) -> float:
        """Sum of their resident memory; pages that they share count twice."""
        return sum(self._rollup(pid, "Rss") for pid in self.processes()) / 1024

    def proportional_mib(self) -> float:
        """The same with shared pages counted once."""
        return sum(self._rollup(pid, "Pss") for pid in self.processes()) / 1024

    @staticmethod
    def _rollup(pid: int, key: str) -> float:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return float(next(x.split()[1] for x in text.splitlines() if x.startswith(f"{key}:")))

    def scrape(self) -> float:
        """Seconds that one scrape takes."""
        started = time.monotonic()
        with urllib.request.urlopen(self.url, timeout=10) as answer:
            assert b"gpu" in answer.read()
        return time.monotonic() - started


@dataclass(frozen=True)
class Measured:
    """Of one side."""

    cpu_share: float
    resident_mib: float
    proportional_mib: float
    p50_ms: float
    p99_ms: float


@contextlib.contextmanager
def both() -> Iterator[tuple[Side, Side]]:
    """Our agent and the peer on the same simulated GPUs, four of which are busy."""
    with tempfile.TemporaryDirectory(prefix="gpuferry-bench-") as folder:
        gpus = Simulated(build(), Path(folder))
        gpus.make("H100", GPUS)
        try:
            for index in range(GPUS // 2):
                gpus.busy("--gpu", str(index), "--seconds", "3600", "--util", "90")
            agent = RunningAgent(gpus)
            port = free_port()
            program = str(state.peer_environment() / "nvitop-exporter")
            argv = [program, "--bind-address", "127.0.0.1", "--port", str(port), "--interval", "1"]
            peer = subprocess.Popen(
                argv, env=gpus.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            gpus.clients.append(peer)
            ours = Side(agent.process.pid, f"http://127.0.0.1:{agent.port}/metrics")
            theirs = Side(peer.pid, f"http://127.0.0.1:{port}/metrics")
            wait_until("the peer answers", lambda: _answers(theirs), 30)
            wait_until("readings", lambda: len(agent.metrics("gpu_power_watts")) == GPUS, 30)
            yield ours, theirs
        finally:
            gpus.end()


def _answers(side: Side) -> bool:
    try:
        side.scrape()
    except OSError:
        return False
    return True


def measure(seconds: float = SECONDS) -> tuple[Measured, Measured]:
    """Both sides over the same time; scrapes in turn, after it."""
    with both() as sides:
        before = [side.cpu_seconds() for side in sides]
        started = time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - started
        shares = [(s.cpu_seconds() - b) / passed for s, b in zip(sides, before, strict=True)]
        scrapes: tuple[list[float], list[float]] = ([], [])
        for _ in range(SCRAPES):
            for side, taken in zip(sides, scrapes, strict=True):
                taken.append(side.scrape())
        made = [
            Measured(
                share,
                side.resident_mib(),
                side.proportional_mib(),
                1000 * sorted(taken)[len(taken) // 2],
                1000 * sorted(taken)[int(0.99 * len(taken))],
            )
            for side, share, taken in zip(sides, shares, scrapes, strict=True)
        ]
    return made[0], made[1]
