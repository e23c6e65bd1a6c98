"""Whether a job advances: step numbers that jobs write, and the age of declared files.

A job writes its step number into a file in the progress folder (`echo 1200 > …/train`). Named by a
pid of the job (as the server sees it), the file speaks for that job alone, else for all GPUs.
"""

from __future__ import annotations

import contextlib
import glob
import heapq
import os
import stat
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from agent.samples import Progress

_MOST_FILES = 64
_MOST_BYTES = 64
# Times of files and of processes are from two clocks, one of which is set now and then.
_SLACK_SECONDS = 2.0
_PATIENCE_SECONDS = 0.5


@dataclass(frozen=True)
class Track:
    """One file: what it said last, when that changed, and the longest time between two changes."""

    value: str
    changed: float
    longest: float = 0.0
    changes: int = 0


def follow(track: Track | None, value: str, at: float, changed_before: float = 0.0) -> Track:
    """The track after another look; `changed_before` is the file's age at the first one.

    The longest interval counts from the second change on: the first one was not seen whole.
    """
    if track is None:
        return Track(value, at - changed_before)
    if track.value == value:
        return track
    interval = at - track.changed
    longest = max(track.longest, interval) if track.changes else track.longest
    return replace(track, value=value, changed=at, longest=longest, changes=track.changes + 1)


def of_job(
    tracks: dict[str, Track], pids: Iterable[int], now: float, folder: str, started: float | None
) -> Progress | None:
    """The progress of a job: of its own file, else the freshest of those that name no process.

    What last changed before the job began (`started`, on the clock of `now`) is another job's,
    also under a number that was used again, and says nothing about this one.
    """
    tracks = {
        path: track
        for path, track in tracks.items()
        if started is None or track.changed >= started - _SLACK_SECONDS
    }
    own = {str(pid) for pid in pids}
    names = {path: path.rpartition("/")[2] for path in tracks}
    in_folder = {path for path in tracks if path.startswith(f"{folder}/")}
    mine = [tracks[path] for path in in_folder if names[path] in own]
    common = [
        track for path, track in tracks.items() if not (path in in_folder and names[path].isdigit())
    ]
    chosen = mine or common
    if not chosen:
        return None
    freshest = max(chosen, key=lambda track: track.changed)
    return Progress(now - freshest.changed, freshest.longest)


def plain(tracks: Mapping[str, Track]) -> dict[str, dict[str, Any]]:
    """For the state file."""
    return {path: asdict(track) for path, track in tracks.items()}


def restored(kept: Mapping[str, Any]) -> dict[str, Track]:
    """From the state file, of the same boot.

    Raises:
        TypeError: it is not one of ours.
    """
    return {path: Track(**track) for path, track in kept.items()}


def trusted(name: str, owner: int, proc: str = "/proc") -> bool:
    """Whether a file may speak: anybody may write here, but for a job only its user and root.

    One that speaks for all GPUs is anybody's: the server's users are a team.
    """
    if owner == 0 or not name.isdigit():
        return True
    try:
        return os.stat(f"{proc}/{name}").st_uid == owner
    except OSError:
        return False  # of no process that there is


class ProgressFiles:
    """Looks at the files."""

    def __init__(
        self, folder: str, patterns: Iterable[str], tracks: dict[str, Track] | None = None
    ) -> None:
        """`tracks`: of before a restart, so that slow steps are not late after it."""
        self._folder = folder
        self._patterns = tuple(patterns)
        self.tracks: dict[str, Track] = tracks or {}
        self._thread: threading.Thread | None = None

    def ask(self, now: float, wall: float) -> None:
        """Look in a thread of its own: declared files may be on a file system that is dead.

        While one waits, nothing is known of progress; `tracks` are those of the look before.
        """
        if self._thread and self._thread.is_alive():
            self.tracks = {}
            return
        self._thread = threading.Thread(target=self.look, args=(now, wall), daemon=True)
        self._thread.start()
        self._thread.join(_PATIENCE_SECONDS)

    def look(self, now: float, wall: float) -> None:
        """Read all files again; `wall` only tells the age of a file at first sight."""
        seen: dict[str, Track] = {}
        for path in self._steps():
            if found := self._read(path):
                value, changed = found
                seen[path] = follow(self.tracks.get(path), value, now, max(0.0, wall - changed))
        for pattern in self._patterns:
            for path in glob.glob(pattern)[:_MOST_FILES]:
                try:
                    changed = os.stat(path).st_mtime
                except OSError:
                    continue
                seen[path] = follow(
                    self.tracks.get(path), str(changed), now, max(0.0, wall - changed)
                )
        self.tracks = seen

    def _steps(self) -> list[str]:
        """The files written last: jobs that ended leave theirs, and those are not in the way.

        By the kernel's own time of a change, which nobody can set into the future.
        """
        written: list[tuple[float, str]] = []
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if not entry.name.startswith("."):
                        with contextlib.suppress(FileNotFoundError):
                            changed = entry.stat(follow_symlinks=False).st_ctime
                            written.append((changed, entry.path))
        except OSError:
            return []
        return [path for _, path in heapq.nlargest(_MOST_FILES, written)]

    @staticmethod
    def _read(path: str) -> tuple[str, float] | None:
        """What a job wrote; anybody may write here, so links and pipes are not followed."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            if not trusted(os.path.basename(path), status.st_uid):
                return None
            return os.read(descriptor, _MOST_BYTES).decode(errors="replace"), status.st_mtime
        except OSError:
            return None
        finally:
            os.close(descriptor)
