"""One process at a time makes what all of them keep, such as a build; the others find it made."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpuferry.paths import cache_dir


@contextmanager
def turn(what: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the turn to make `what`; who waits for it says so.

    Whoever gets it looks again whether the thing is there. A killed holder loses it at once.
    """
    folder = cache_dir() / "turns"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / re.sub(r"[^\w.-]+", "-", what), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for {what}, which another process makes")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
