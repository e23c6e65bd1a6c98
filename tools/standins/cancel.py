"""Cancelling: what runs is told to end, given a moment to clean up, and then killed."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GRACE_SECONDS = 5.0
POLL_SECONDS = 0.02


class Cancelled(Exception):
    """The engine cancelled the operation before or while it ran."""


class Cancellation:
    """Remembers how to stop each running operation, and stops all of them on request."""

    def __init__(self) -> None:
        """Start with nothing running and nothing cancelled."""
        self._lock = threading.Lock()
        self._stops: list[Callable[[], None]] = []
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Stop everything that runs, all at once, and refuse what would start later."""
        with self._lock:
            self._cancelled.set()
            stops = list(self._stops)
        threads = [threading.Thread(target=stop) for stop in stops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def sleep(self, seconds: float) -> None:
        """Wait between two attempts; raises Cancelled as soon as the engine cancels."""
        if self._cancelled.wait(seconds):
            raise Cancelled("cancelled")

    @contextmanager
    def watch(self, stop: Callable[[], None], timeout_seconds: float = 0) -> Iterator[None]:
        """Call `stop` if the engine cancels, or the timeout (0: none) passes, during the block.

        A block that fails after it was stopped raises Cancelled instead of its own error; one
        that succeeds all the same has succeeded, so that its result is not lost.
        """
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            stop()

        timer = threading.Timer(timeout_seconds, expire)
        with self._lock:
            if self._cancelled.is_set():
                raise Cancelled("cancelled")
            self._stops.append(stop)
        if timeout_seconds:
            timer.start()
        try:
            yield
        except Exception:
            if expired.is_set():
                raise Cancelled(f"timed out after {timeout_seconds:g} s") from None
            if self._cancelled.is_set():
                raise Cancelled("cancelled") from None
            raise
        finally:
            timer.cancel()
            with self._lock:
                self._stops.remove(stop)


def stop_group(process: "subprocess.Popen[bytes]", first: signal.Signals) -> None:
    """End a process and all that it started: a signal, a grace of 5 s, then SIGKILL.

    The process must be the leader of its own group (`start_new_session=True`).
    """
    deadline = time.monotonic() + GRACE_SECONDS
    if not _signal_group(process, first):
        return
    while time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        # An ended leader stays in its group until it is collected.
        process.poll()
        if not _signal_group(process, None):
            return
    _signal_group(process, signal.SIGKILL)


def _signal_group(process: "subprocess.Popen[bytes]", number: signal.Signals | None) -> bool:
    """Send a signal (None: only probe) to the group; False when nobody is left in it."""
    try:
        os.killpg(process.pid, number or 0)
    except ProcessLookupError:
        return False
    return True
