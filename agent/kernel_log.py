"""The kernel's log from where the last reader stopped, also across restarts of the agent.

A cursor is kept per log: boot and sequence number for /dev/kmsg, file and offset for a plain file
(which simulated GPUs and tests have). Lines before the first cursor of a boot are new: a fault of
the boot itself is told once.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import Any

# priority, sequence, microseconds since boot, flags; the text (Documentation/ABI/testing/dev-kmsg).
_RECORD = re.compile(r"^(\d+),(\d+),(\d+),[^;]*;(.*)$")
_RECORD_BYTES = 8192
_MOST_LINES = 20_000


@dataclass(frozen=True)
class Record:
    """One line and when it was written, in seconds since boot."""

    seconds: float
    text: str


class KernelLog:
    """One log; `cursor` is to be kept and given back."""

    def __init__(self, path: str, boot: str, cursor: dict[str, Any] | None) -> None:
        self.path = path
        self._boot = boot
        same = cursor is not None and cursor.get("boot") == boot
        self.cursor: dict[str, Any] = dict(cursor or {}) if same else {"boot": boot}
        self._device: int | None = None
        self.lost = 0

    def read(self) -> list[Record]:
        """New records; none where the log is not there or may not be read."""
        try:
            if stat.S_ISCHR(os.stat(self.path).st_mode):
                return self._from_device()
            return self._from_file()
        except OSError:
            self.close()
            return []

    def close(self) -> None:
        """Let go of the device."""
        if self._device is not None:
            os.close(self._device)
            self._device = None

    def _from_device(self) -> list[Record]:
        if self._device is None:
            self._device = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        found: list[Record] = []
        for _ in range(_MOST_LINES):
            try:
                raw = os.read(self._device, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                # Overwritten before it could be read; the next read goes on after the hole.
                self.lost += 1
                continue
            if not raw:
                break
            match = _RECORD.match(raw.decode(errors="replace").split("\n", 1)[0])
            if match and int(match.group(2)) > self.cursor.get("sequence", -1):
                self.cursor["sequence"] = int(match.group(2))
                found.append(Record(int(match.group(3)) / 1e6, match.group(4)))
        return found

    def _from_file(self) -> list[Record]:
        with open(self.path, "rb") as handle:
            status = os.fstat(handle.fileno())
            identity = f"{status.st_dev}:{status.st_ino}"
            offset = int(self.cursor.get("offset", 0))
            if self.cursor.get("file") != identity or offset > status.st_size:
                offset = 0
            handle.seek(offset)
            data = handle.read(_MOST_LINES * 200)
        # A line that is still being written is left for the next time.
        whole = data[: data.rfind(b"\n") + 1]
        self.cursor.update(file=identity, offset=offset + len(whole))
        matches = (_RECORD.match(line) for line in whole.decode(errors="replace").splitlines())
        return [Record(int(m.group(3)) / 1e6, m.group(4)) for m in matches if m]
