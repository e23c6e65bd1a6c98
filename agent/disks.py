"""Free space of mounts, asked in a thread of its own: a dead network file system answers never."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class Space:
    """Of one mount; bytes, and inodes as a share that is free (None: it has none)."""

    size: int
    free: int
    inodes_free: float | None


class Disks:
    """One waiter at most per mount (node_exporter#244: threads piled up)."""

    def __init__(self, mounts: Iterable[str]) -> None:
        self._mounts = tuple(mounts)
        self._threads: dict[str, threading.Thread] = {}
        self._asked: dict[str, float] = {}
        self.spaces: dict[str, Space] = {}

    def ask(self) -> None:
        """Start to look at every mount that answers; results appear in `spaces`."""
        for mount in self._mounts:
            before = self._threads.get(mount)
            if before and before.is_alive():
                continue
            self._asked[mount] = time.monotonic()
            self._threads[mount] = threading.Thread(target=self._look, args=(mount,), daemon=True)
            self._threads[mount].start()

    def stuck(self) -> set[str]:
        """Mounts that have not answered for 5 s; what they said before is taken away."""
        late = time.monotonic() - _PATIENCE_SECONDS
        found = {m for m, t in self._threads.items() if t.is_alive() and self._asked[m] < late}
        for mount in found:
            self.spaces.pop(mount, None)
        return found

    def _look(self, mount: str) -> None:
        try:
            if mount != "/" and not os.path.ismount(mount):
                self.spaces.pop(mount, None)
                return
            told = os.statvfs(mount)
        except OSError:
            self.spaces.pop(mount, None)
            return
        self.spaces[mount] = Space(
            told.f_blocks * told.f_frsize,
            told.f_bavail * told.f_frsize,
            told.f_favail / told.f_files if told.f_files else None,
        )
