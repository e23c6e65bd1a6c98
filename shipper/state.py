"""What outlives the process: where each source was verified up to, and counters."""

from __future__ import annotations

import copy
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from shipper.files import read_json, write_whole
from shipper.spool import Entry

VERSION = 1


@dataclass
class Counters:
    """Since the server was made."""

    shipped_chunks: int = 0
    shipped_lines: int = 0
    shipped_bytes: int = 0
    # Taken out of the full spool unsent.
    dropped_chunks: int = 0
    dropped_lines: int = 0
    # Lines that the journal had thrown away before they were read.
    missed_lines: int = 0
    # Places where nobody can say how many lines are missing.
    uncounted_gaps: int = 0


_LATER = ("ended", "gap_after", "lost_at")
# What is written beside the counters.
_KEPT = ("positions", "numbers", "dropping", "rollups", *_LATER)


@dataclass
class State:
    """Shared by the reading and the sending thread."""

    path: str
    # Source to where it was verified up to (or dropped), and the number of that chunk.
    positions: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    # A chunk that is counted as dropped, and whose file may still be there.
    dropping: int = 0
    # Containers in the positions that are gone: a restart must not miss them.
    ended: list[str] = field(default_factory=list)
    # After which cursor lines of the journal were last counted as missed.
    gap_after: str = ""
    # Name of a day's account to the hash of what was uploaded.
    rollups: dict[str, str] = field(default_factory=dict)
    # When lines were lost last (wall clock); 0: never.
    lost_at: float = 0.0
    counters: Counters = field(default_factory=Counters)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    def load(cls, folder: str) -> State:
        """From the folder; a lost file costs the counters and begins at this boot."""
        path = os.path.join(folder, "state.json")
        data = read_json(path)
        if data.get("version") != VERSION:
            return cls(path)
        known = set(Counters.__dataclass_fields__)
        counters = Counters(**{k: v for k, v in data["counters"].items() if k in known})
        # A file of the first shippers lacks the later ones.
        kept = {key: data[key] for key in _KEPT if key in data or key not in _LATER}
        return cls(path, counters=counters, **kept)

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Change it and write it, so that it survives a crash; both or, on a full disk, neither.

        Otherwise what is tried again would be counted again.
        """
        with self.lock:
            before = copy.deepcopy(self._plain())
            try:
                yield
                write_whole(self.path, json.dumps(self._plain(), sort_keys=True).encode())
            except OSError:
                for name in _KEPT:
                    setattr(self, name, before[name])
                self.counters = Counters(**before["counters"])
                raise

    def _plain(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            **{name: getattr(self, name) for name in _KEPT},
            "counters": asdict(self.counters),
        }

    @property
    def highest(self) -> int:
        """The highest number of a chunk that was given away."""
        return max([self.dropping, *self.numbers.values()])

    def shipped(self, entry: Entry, size: int) -> None:
        """The store has been seen to have it."""
        with self._change():
            self._pass(entry)
            self.counters.shipped_chunks += 1
            self.counters.shipped_lines += entry.lines
            self.counters.shipped_bytes += size

    def uploaded(self, date: str, digest: str) -> None:
        """A day's account is in the store."""
        with self._change():
            self.rollups[date] = digest

    def gone(self, containers: set[str]) -> None:
        """These of the positions have ended."""
        if containers != set(self.ended):
            with self._change():
                self.ended = sorted(containers)

    def dropped(self, entry: Entry) -> None:
        """It is given up; counted before its file goes, and only once."""
        with self._change():
            self._pass(entry)
            self.dropping, self.lost_at = entry.number, time.time()
            self.counters.dropped_chunks += 1
            self.counters.dropped_lines += entry.lines

    def missed(self, lines: int | None, after: str = "") -> bool:
        """Lines are gone that nobody read; None: nobody knows how many.

        `after`: the cursor that they followed. False when those were counted already: until what
        comes next is kept, the same gap is found again.
        """
        if after and after == self.gap_after:
            return False
        with self._change():
            self.gap_after, self.lost_at = after or self.gap_after, time.time()
            if lines is None:
                self.counters.uncounted_gaps += 1
            else:
                self.counters.missed_lines += lines
        return True

    def _pass(self, entry: Entry) -> None:
        # A chunk on its way may be verified after a newer one was dropped.
        if entry.number > self.numbers.get(entry.source, 0):
            self.positions[entry.source] = entry.end
            self.numbers[entry.source] = entry.number
