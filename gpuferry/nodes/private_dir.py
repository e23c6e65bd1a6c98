"""A directory for secrets that lives in memory and does not outlive its process.

Keys and sockets of one run lie here. The directory is removed on every ordinary way out, on
exceptions, and on SIGTERM and SIGHUP; what a killed run left behind is removed by the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

_PREFIX = "gpuferry-"
_MEMORY = Path("/dev/shm")


def runtime_base() -> Path:
    """Return the best place for secrets: memory first, the temporary folder as a last resort."""
    candidates = [_MEMORY, Path(os.environ.get("XDG_RUNTIME_DIR") or _MEMORY)]
    usable = (p for p in candidates if p.is_dir() and os.access(p, os.W_OK | os.X_OK))
    return next(usable, Path(tempfile.gettempdir()))


@contextlib.contextmanager
def private_directory(base: Path | None = None) -> Iterator[Path]:
    """Yield an empty 0700 directory that is removed afterwards, whatever happens.

    The directory is locked for as long as this process lives. The kernel drops the lock with the
    process, so a later run can tell a leftover from a live one without trusting process ids.
    """
    base = base or runtime_base()
    sweep_leftovers(base)
    # Made under a name that the sweep does not look at, so that it is never seen unlocked.
    fresh = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=base))
    path = base / fresh.name.removeprefix(".")
    lock = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with _signals_unwind():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fresh.rename(path)
            yield path
    finally:
        end_processes_of(path)
        shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(fresh, ignore_errors=True)
        os.close(lock)


def sweep_leftovers(base: Path) -> list[Path]:
    """Remove directories of runs that were killed; return what was removed."""
    removed = []
    for path in base.glob(f"{_PREFIX}*"):
        try:
            ours = not path.is_symlink() and path.lstat().st_uid == os.getuid()
        except FileNotFoundError:
            continue  # a run that has just ended removed it itself
        if not ours:
            continue
        if _is_abandoned(path):
            end_processes_of(path)
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


def end_processes_of(path: Path) -> list[int]:
    """End what still works with a private directory whose run is over; return the process ids.

    Ansible's and OpenSSH's helpers detach themselves, and may outlive a run that was cancelled.
    They all name the directory, whose name is random, in their command line.
    """
    ended = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            if f"{path}/" in words and int(entry.name) != os.getpid():
                os.kill(int(entry.name), signal.SIGKILL)
                ended.append(int(entry.name))
        except OSError:
            continue  # it ended by itself
    return ended


def _is_abandoned(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


@contextlib.contextmanager
def _signals_unwind() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an ordinary exit, so that `finally` blocks run.

    Only where nobody else handles them, and only in the main thread (Python's own rule).
    """
    replaced: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _leave)
                replaced.append(number)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)


def _leave(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
