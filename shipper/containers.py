"""Logs of Docker's containers, as the driver json-file writes them.

Docker keeps its files and `docker logs` goes on working. A file is followed by its inode through
Docker's own rotation, and held open, so that what a container wrote before it was removed is read.
"""

from __future__ import annotations

import calendar
import json
import os
import time
from dataclasses import dataclass
from typing import Any

from shipper.chunk import MOST_RAW_BYTES, Builder, Made

SOURCE = "containers"
_TIME_KEY = b'"time":"'
_BLOCK = 1 << 20


@dataclass
class Followed:
    """One container's log: the file that is read and how far."""

    id: str
    name: str
    descriptor: int
    inode: int
    offset: int


class Containers:
    """All containers of one Docker."""

    def __init__(self, folder: str, positions: dict[str, Any] | None) -> None:
        """`positions`: container to [inode, offset], as `take` gave it."""
        self._folder = os.path.join(folder, "containers")
        self._followed: dict[str, Followed] = {}
        self._known = dict(positions or {})
        # Id to name and driver, of those that cannot be read here.
        self._others: dict[str, tuple[str, str]] = {}
        # Containers of which something was lost, since last asked.
        self._gaps: list[str] = []
        # Containers that are gone and have nothing left to be read, or that is counted as lost.
        self.ended: set[str] = set()
        self._first = True

    def scan(self) -> None:
        """Open the logs of new containers."""
        try:
            present, there = set(os.listdir(self._folder)), True
        except OSError:
            # Not there yet, say on a disk that is opened after the boot: nothing is gone.
            present, there = set(), False
        self._others = {c: told for c, told in self._others.items() if c in present}
        for container in present - self._followed.keys() - self._others.keys():
            self._open(container)
        if self._first and there:
            self._first = False
            for container in self._known.keys() - self._followed.keys():
                # Removed while nobody looked: what it had written since is gone.
                self._gaps.append(container[:12])
                self.ended.add(container)
                del self._known[container]

    @property
    def others(self) -> dict[str, str]:
        """Name to driver, of the containers that cannot be read here."""
        return dict(self._others.values())

    def gaps(self) -> list[str]:
        """Containers of which something was lost since the last call; nobody knows how much."""
        found, self._gaps = self._gaps, []
        return found

    def _open(self, container: str) -> None:
        files = self._files(container)
        if not files:
            self._look_at_driver(container)
            return
        known = self._known.get(container)
        at = next((f for f in files if known and f[0] == known[0]), None)
        if known and at is None:
            self._gaps.append(container[:12])
        _, path = at or files[0]
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        offset = int(known[1]) if known and at else 0
        name = self._name(container)
        self._followed[container] = Followed(
            container, name, descriptor, os.fstat(descriptor).st_ino, offset
        )

    def _files(self, container: str) -> list[tuple[int, str]]:
        """Inode and path of a container's log, the oldest first."""
        base = os.path.join(self._folder, container, f"{container}-json.log")
        found = []
        number = 0
        while True:
            path = f"{base}.{number}" if number else base
            try:
                found.append((os.stat(path).st_ino, path))
            except OSError:
                # Right after a rotation there may be a `.1` and not yet a new file.
                if number:
                    return found[::-1]
            number += 1

    def _name(self, container: str) -> str:
        told = self._description(container, "config.v2.json").get("Name", "")
        return str(told).lstrip("/") or container[:12]

    def _look_at_driver(self, container: str) -> None:
        host = self._description(container, "hostconfig.json")
        driver = str(host.get("LogConfig", {}).get("Type", ""))
        if driver not in ("", "json-file", "journald", "none"):
            self._others[container] = (self._name(container), driver)

    def _description(self, container: str, file: str) -> dict[str, Any]:
        try:
            with open(os.path.join(self._folder, container, file), encoding="utf-8") as handle:
                return dict(json.load(handle))
        except (OSError, ValueError):
            return {}

    def take(self) -> Made | None:
        """What was written since, at most one chunk of it; None where that is nothing."""
        start = self.positions()
        builder = Builder()
        segments: list[dict[str, Any]] = []
        times: list[int] = []
        for followed in list(self._followed.values()):
            lines, raw = builder.lines, builder.raw
            while builder.raw < MOST_RAW_BYTES:
                data = self._read(followed)
                if not data:
                    break
                builder.add(data, data.count(b"\n"))
                times += _span(data)
            if builder.raw > raw:
                segments.append(
                    {
                        "container": followed.name,
                        "id": followed.id[:12],
                        "lines": builder.lines - lines,
                    }
                )
            if builder.raw >= MOST_RAW_BYTES:
                # The next chunk begins with the others: who logs fast must not keep them waiting.
                if followed.id in self._followed:
                    self._followed[followed.id] = self._followed.pop(followed.id)
                break
        if not segments:
            return None
        times = times or [time.time_ns() // 1000]
        return Made(SOURCE, builder, min(times), max(times), start, self.positions(), segments)

    def _read(self, followed: Followed) -> bytes:
        """The next whole lines, from whichever file has them."""
        while True:
            # Asked before reading: after that Docker writes nothing more into a renamed file.
            files = self._files(followed.id)
            data = os.pread(followed.descriptor, _BLOCK, followed.offset)
            cut = data.rfind(b"\n") + 1
            if not cut and len(data) == _BLOCK:
                data = os.pread(followed.descriptor, _BLOCK * 64, followed.offset)
                cut = data.rfind(b"\n") + 1
            if cut:
                followed.offset += cut
                return data[:cut]
            if os.fstat(followed.descriptor).st_size < followed.offset:
                # Emptied in place, by Docker with one file only or by somebody.
                self._gaps.append(followed.name)
                followed.offset = 0
                continue
            if not files:
                self._forget(followed)
                self.ended.add(followed.id)
                return b""
            inodes = [inode for inode, _ in files]
            at = inodes.index(followed.inode) if followed.inode in inodes else -1
            if at == len(files) - 1:
                return b""
            if at < 0:
                # Rotated away altogether: between it and the oldest there may have been others.
                self._gaps.append(followed.name)
            if not self._next_file(followed, files[at + 1][1]):
                return b""

    def _next_file(self, followed: Followed, path: str) -> bool:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        os.close(followed.descriptor)
        followed.descriptor, followed.offset = descriptor, 0
        followed.inode = os.fstat(descriptor).st_ino
        return True

    def _forget(self, followed: Followed) -> None:
        os.close(followed.descriptor)
        self._followed.pop(followed.id, None)
        self._known.pop(followed.id, None)

    def positions(self) -> dict[str, list[int]]:
        """Container to [inode, offset], of all that are there."""
        return {f.id: [f.inode, f.offset] for f in self._followed.values()}

    def close(self) -> None:
        """Let go of all files."""
        for followed in list(self._followed.values()):
            self._forget(followed)


def _span(data: bytes) -> list[int]:
    """Times of the first and the last line; none where they have none."""
    lines = (data[: data.index(b"\n")], data[data.rfind(b"\n", 0, -1) + 1 :])
    return [moment for moment in map(moment_of, lines) if moment]


def moment_of(line: bytes) -> int:
    """Microseconds since 1970 of a line of json-file; 0 where it tells none."""
    at = line.rfind(_TIME_KEY)
    # 2026-11-30T21:57:17.123456789Z, RFC 3339 with as many digits as are needed.
    text = line[at + len(_TIME_KEY) :].split(b'"', 1)[0].decode(errors="replace")
    try:
        seconds = calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0
    fraction = text[19:].rstrip("Z").lstrip(".")[:6].ljust(6, "0")
    return seconds * 1_000_000 + (int(fraction) if fraction.isdigit() else 0)
