"""Chunks on the disk, until the store has them. Bounded; what is dropped is the caller's to count.

One file for each: a line of JSON that says where it goes, then the very bytes that are sent.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from typing import Any

from shipper.files import sync_folder, write_whole

_SUFFIX = ".chunk"
# What a small file takes on a disk.
_BLOCK = 4096


@dataclass(frozen=True)
class Entry:
    """One chunk that waits."""

    number: int
    path: str
    # On the disk, in whole blocks.
    size: int
    key: str
    source: str
    end: Any
    lines: int
    first: int
    last: int
    # Found at a start: the store may have it already.
    found: bool = False


class Spool:
    """A folder of chunks, oldest first."""

    def __init__(self, folder: str, above: int) -> None:
        """`above`: numbers up to this one were given away before."""
        self._folder = folder
        self._lock = threading.Lock()
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.unreadable: list[str] = []
        self._claimed: int | None = None
        self._entries = self._load()
        self._next = max([above, *(entry.number for entry in self._entries)]) + 1

    def _load(self) -> list[Entry]:
        entries = []
        for name in sorted(os.listdir(self._folder)):
            path = os.path.join(self._folder, name)
            if not name.endswith(_SUFFIX):
                os.unlink(path)
                continue
            try:
                with open(path, "rb") as handle:
                    told = json.loads(handle.readline())
                    size = os.fstat(handle.fileno()).st_size
                    if handle.tell() + told.pop("bytes") != size:
                        raise ValueError("another size than was written")
                entries.append(Entry(int(name[: -len(_SUFFIX)]), path, _blocks(size), found=True,
                                     **told))  # fmt: skip
            except (ValueError, KeyError, TypeError) as error:
                # Renamed only when whole: this is a broken disk, or somebody's hand.
                self.unreadable.append(f"{name}: {error}")
                os.unlink(path)
        return entries

    def add(self, key: str, source: str, end: Any, lines: int, span: tuple[int, int],
            body: bytes) -> Entry:  # fmt: skip
        """Keep a chunk; when this returns it survives a crash.

        Raises:
            OSError: the disk is full or broken; nothing was kept.
        """
        told = {"key": key, "source": source, "end": end, "lines": lines, "first": span[0],
                "last": span[1]}  # fmt: skip
        head = json.dumps({**told, "bytes": len(body)}).encode() + b"\n"
        path = os.path.join(self._folder, f"{self._next:012d}{_SUFFIX}")
        write_whole(path, head + body)
        with self._lock:
            entry = Entry(self._next, path, _blocks(len(head) + len(body)), key, source, end, lines,
                          *span)  # fmt: skip
            self._entries.append(entry)
            self._next += 1
        return entry

    def oldest(self) -> Entry | None:
        """The oldest one."""
        with self._lock:
            return self._entries[0] if self._entries else None

    def claim(self) -> Entry | None:
        """The oldest one, which from now on is not given up; None where none waits."""
        with self._lock:
            entry = self._entries[0] if self._entries else None
            self._claimed = entry.number if entry else None
            return entry

    def release(self) -> None:
        """It was sent, or it was not."""
        with self._lock:
            self._claimed = None

    def give_up(self) -> Entry | None:
        """Take the oldest one that is not claimed from the list; its file stays for `remove`."""
        with self._lock:
            found = next((e for e in self._entries if e.number != self._claimed), None)
            self._entries = [e for e in self._entries if e is not found]
            return found

    def take_back(self, entry: Entry) -> None:
        """It was not given up after all."""
        with self._lock:
            others = [e for e in self._entries if e.number != entry.number]
            self._entries = sorted([*others, entry], key=lambda e: e.number)

    def find(self, number: int) -> Entry | None:
        """The one with this number."""
        with self._lock:
            return next((e for e in self._entries if e.number == number), None)

    def end(self, source: str) -> Any:
        """Where the newest chunk of a source ends; None where none waits."""
        with self._lock:
            return next((e.end for e in reversed(self._entries) if e.source == source), None)

    def remove(self, entry: Entry) -> None:
        """Forget one."""
        with self._lock:
            self._entries = [e for e in self._entries if e.number != entry.number]
        os.unlink(entry.path)
        sync_folder(self._folder)

    @property
    def newest(self) -> int:
        """The number that was given away last."""
        return self._next - 1

    @property
    def size(self) -> int:
        """Bytes of all."""
        with self._lock:
            return sum(entry.size for entry in self._entries)

    @property
    def waiting(self) -> int:
        """How many there are."""
        with self._lock:
            return len(self._entries)


def body(entry: Entry) -> bytes:
    """What is to be sent."""
    with open(entry.path, "rb") as handle:
        handle.readline()
        return handle.read()


def _blocks(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
