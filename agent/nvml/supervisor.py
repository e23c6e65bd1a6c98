"""Keeps a child process that may hang: when to start, end and give up on it.

:func:`decide` is pure; :class:`Supervisor` does what it says.
"""

from __future__ import annotations

import json
import mmap
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

_MARK_BYTES = 128
Phase = Literal["absent", "starting", "running", "ending"]
Step = Literal["wait", "start", "terminate", "abandon"]


@dataclass(frozen=True)
class Limits:
    """Seconds. The silence is nvidia_gpu_exporter's collect timeout; 15 s is promised."""

    silence: float = 10.0
    # Without the persistence daemon every GPU is woken by the initialisation, seconds each.
    start: float = 60.0
    # One in kernel sleep cannot be ended, and SIGKILL in mid-call froze GPUs (dcgm-exporter#84).
    end: float = 10.0
    back_off_first: float = 1.0
    # A refusal costs little, and a driver that was just loaded is to be seen soon.
    back_off_most: float = 15.0
    abandoned_most: int = 2
    # The agent looks each second: after longer it was itself stopped, or the machine paused.
    absence: float = 5.0
    # What its child, which was stopped as well, then has to be heard.
    chance: float = 3.0


@dataclass(frozen=True)
class Life:
    """Where the child is. Times are monotonic seconds; `since` is of the phase."""

    phase: Phase = "absent"
    since: float = 0.0
    heard: float = 0.0
    failures: int = 0
    abandoned: int = 0
    hung: bool = False


def silent_seconds(life: Life, now: float) -> float:
    """How long nothing was heard; 0 without a child."""
    return now - max(life.heard, life.since) if life.phase in ("starting", "running") else 0.0


def back_off(failures: int, limits: Limits) -> float:
    """Seconds to wait before the next start; 0 before the first."""
    if failures == 0:
        return 0.0
    return float(min(limits.back_off_first * 2 ** min(failures - 1, 16), limits.back_off_most))


def notice(life: Life, now: float, limits: Limits) -> Life:
    """Mark as hung what is silent for too long; only a sample takes that away."""
    if silent_seconds(life, now) > limits.silence and not life.hung:
        return replace(life, hung=True)
    return life


def excuse(life: Life, now: float, limits: Limits) -> Life:
    """After an absence of the agent itself: the silence of that time says nothing of the driver."""
    heard = now - limits.silence + limits.chance
    return replace(life, heard=max(life.heard, heard), since=max(life.since, heard))


def decide(life: Life, now: float, limits: Limits) -> Step:
    """What to do with the child now."""
    if life.phase == "absent":
        if life.abandoned >= limits.abandoned_most:
            return "wait"
        return "start" if now - life.since >= back_off(life.failures, limits) else "wait"
    if life.phase == "ending":
        return "abandon" if now - life.since > limits.end else "wait"
    patience = limits.start if life.phase == "starting" else limits.silence
    return "terminate" if silent_seconds(life, now) > patience else "wait"


def _message(line: bytes) -> dict[str, Any] | None:
    """None for what the driver's library itself prints there."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and "kind" in message else None


class Supervisor:
    """The child process, its lines, and what is known about the driver from both."""

    def __init__(self, period: float, limits: Limits, say: Callable[[str], None]) -> None:
        self.life = Life()
        self.limits = limits
        self.starts = 0
        self.trouble: dict[str, Any] = {}
        self.hung_in = ""
        self._period = period
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._abandoned: list[subprocess.Popen[bytes]] = []
        self._buffer = b""
        self._stepped: float | None = None
        # Once until something is heard: an agent that is always late would never find a hang.
        self._excused = False
        descriptor = os.memfd_create("nvml-call")
        os.ftruncate(descriptor, _MARK_BYTES)
        self._mark_descriptor = descriptor
        self._mark = mmap.mmap(descriptor, _MARK_BYTES)

    @property
    def pid(self) -> int | None:
        """Of the child, while there is one."""
        return self._process.pid if self._process else None

    def messages(self, timeout: float) -> list[dict[str, Any]]:
        """Wait so long for lines of the child; empty when it is silent or not there."""
        if self._process is None or self._process.stdout is None:
            return []
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout):
                return []
        data = os.read(self._process.stdout.fileno(), 1 << 20)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [message for line in lines if (message := _message(line))]

    def heard(self, message: dict[str, Any], now: float) -> None:
        """Take note of a line."""
        self._excused = False
        if message["kind"] == "failed":
            self.trouble = {"code": message["code"], "text": message["text"]}
            # It answers, if only with a refusal.
            self.life = replace(self.life, heard=now, hung=False)
        elif message["kind"] == "hello":
            self.life = replace(self.life, heard=now)
        else:
            self.trouble = {}
            self.hung_in = ""
            self.life = replace(self.life, phase="running", heard=now, hung=False, failures=0)

    def step(self, now: float) -> None:
        """Start, end or give up the child, as it is due."""
        self._reap(now)
        late = self._stepped is not None and now - self._stepped > self.limits.absence
        self._stepped = now
        if late and not self._excused and not self.life.hung:
            self._excused = True
            self.life = excuse(self.life, now, self.limits)
        before = self.life.hung
        self.life = notice(self.life, now, self.limits)
        if self.life.hung and not before:
            self.hung_in = bytes(self._mark[:]).rstrip(b"\0").decode(errors="replace")
            self._say(f"the driver hangs: {self.hung_in} has not returned")
        what = decide(self.life, now, self.limits)
        if what == "start":
            self._start(now)
        elif what == "terminate" and self._process:
            self._process.send_signal(signal.SIGTERM)
            self.life = replace(self.life, phase="ending", since=now)
        elif what == "abandon" and self._process:
            self._say(f"process {self._process.pid} does not end; it is left alone")
            self._abandoned.append(self._process)
            self._ended(now)

    def stop(self) -> None:
        """Ask the child to end, without waiting for one that cannot."""
        if self._process:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(2)
            except subprocess.TimeoutExpired:
                self._say(f"process {self._process.pid} hangs in the driver and is left to it")

    def _start(self, now: float) -> None:
        root = Path(__file__).resolve().parents[2]
        code = (
            f"import sys; sys.path.insert(0, {str(root)!r}); "
            "from agent.nvml.child import main; sys.exit(main())"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", code, str(self._mark_descriptor), str(self._period)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=[self._mark_descriptor],
        )  # fmt: skip
        self._buffer = b""
        self.starts += 1
        self.life = replace(self.life, phase="starting", since=now)

    def _reap(self, now: float) -> None:
        self._abandoned = [p for p in self._abandoned if p.poll() is None]
        if self._process and self._process.poll() is not None:
            code = self._process.returncode
            if code not in (3, -signal.SIGTERM):
                self._say(f"the NVML process ended with {code}")
            self._ended(now)
        self.life = replace(self.life, abandoned=len(self._abandoned))

    def _ended(self, now: float) -> None:
        if self._process and self._process.stdout:
            self._process.stdout.close()
        self._process = None
        self.life = replace(self.life, phase="absent", since=now, failures=self.life.failures + 1)
