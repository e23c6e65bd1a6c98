"""Who holds a stack, and whether that run is still alive.

Pulumi's file backend leaves one JSON file per run in its `locks` folder: process id, user,
machine, time. A run that was killed cannot remove it.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from gpuferry.errors import StackLocked

# How the engine lists the locks that it found, whatever backend they are in.
_LISTED = re.compile(
    r"/\.pulumi/locks/\S+: created by (?P<user>.+)@(?P<machine>\S+) \(pid (?P<pid>\d+)\) "
    r"at (?P<since>\S+)"
)


@dataclass(frozen=True)
class Lock:
    """One lock file."""

    path: Path
    pid: int
    user: str
    machine: str
    since: datetime.datetime

    def is_stale(self, machine: str, process_started: float | None) -> bool:
        """Whether its run is over for certain.

        `process_started` is the start time (Unix seconds) of the process that has this id now,
        None when there is none. A process younger than the lock is another one with its id.
        """
        if self.machine != machine:
            return False
        return process_started is None or process_started > self.since.timestamp() + 1

    def describe(self, now: datetime.datetime) -> str:
        """Who, where, how long."""
        age = max(0, int((now - self.since).total_seconds()))
        human = f"{age} s" if age < 120 else f"{age // 60} min"
        return f"process {self.pid} of {self.user} on {self.machine}, for {human}"


def read(state: Path, project: str, stack: str) -> list[Lock]:
    """All locks on a stack of the file backend."""
    folder = state / ".pulumi" / "locks" / "organization" / project / stack
    locks = []
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text())
            # Go writes nanoseconds; Python reads microseconds.
            stamp = content["timestamp"]
            since = datetime.datetime.fromisoformat(stamp[:19] + "+00:00")
            if not stamp.endswith("Z"):
                since = datetime.datetime.fromisoformat(stamp[:19] + stamp[-6:])
            fields = (int(content["pid"]), content["username"], content["hostname"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # released while we read, or half-written
        locks.append(Lock(path, *fields, since))
    return locks


def clear_or_refuse(state: Path, project: str, stack: str, take_over: bool) -> list[str]:
    """Remove locks of runs that are over; refuse when a run is alive or cannot be judged.

    Returns one sentence for each lock that was removed.

    Raises:
        StackLocked: names the holder, its age and the way out.
    """
    said = []
    now = datetime.datetime.now(datetime.UTC)
    for lock in read(state, project, stack):
        who = lock.describe(now)
        if lock.is_stale(socket.gethostname(), _started(lock.pid)):
            said.append(f"removing the lock of a run that is over ({who})")
        elif take_over and lock.machine != socket.gethostname():
            said.append(f"taking the stack over from {who}")
        elif lock.machine == socket.gethostname():
            raise StackLocked(
                f"The stack {stack} is in use: {who}. Wait until that run ends; if it hangs, stop "
                f"it with `kill -INT {lock.pid}` and run this again."
            )
        else:
            raise StackLocked(
                f"The stack {stack} is in use: {who}. Whether that run is alive cannot be seen "
                "from here; if you know that it is over, repeat with --take-over-lock."
            )
        lock.path.unlink(missing_ok=True)
    return said


def holder(line: str) -> str | None:
    """Who holds a stack, from a line in which the engine lists a lock; None for other lines."""
    found = _LISTED.search(line)
    if found is None:
        return None
    who = f"process {found['pid']} of {found['user']} on {found['machine']}"
    return f"{who}, since {found['since']}"


def _started(pid: int) -> float | None:
    """Start of the process with this id in Unix seconds, or None (also for a zombie)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        boot = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime")
        )
    except (OSError, StopIteration):
        return None
    fields = text.rsplit(")", 1)[1].split()
    if fields[0] == "Z":
        return None
    return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")
