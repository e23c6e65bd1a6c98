"""The sending thread: oldest first, verified, then forgotten. No trouble of the store ends it."""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections.abc import Callable

from shipper import chunk, keys, spool
from shipper.s3 import Store, StoreTrouble
from shipper.spool import Entry, Spool
from shipper.state import State

MOST_PAUSE_SECONDS = 60.0
# A day that is not over is sent so often.
_TODAY_SECONDS = 3600.0
_LOOK_SECONDS = 60.0

Say = Callable[[str], None]


def pause(failures: int, random_part: float) -> float:
    """Seconds until the next attempt: doubled each time up to a minute, half of it at random.

    `random_part` is from 0 to 1: a store that comes back is not asked by everybody at once.
    """
    whole = min(MOST_PAUSE_SECONDS, float(2 ** min(failures, 10)) / 2)
    return whole / 2 + whole / 2 * random_part


class Uploader(threading.Thread):
    """Sends what is in the spool."""

    def __init__(
        self, spool_: Spool, state: State, store: Store, server: str, recipient: str,
        rollup_folder: str, say: Say,
    ) -> None:  # fmt: skip
        super().__init__(name="uploader", daemon=True)
        self._spool, self._state, self._store, self._say = spool_, state, store, say
        self._server, self._recipient, self._rollups = server, recipient, rollup_folder
        self._awake = threading.Condition()
        self._asked = False
        self._stopping = False
        self._failures = 0
        self._looked = 0.0
        self._sent_today: dict[str, float] = {}
        self.trouble = ""
        self.trouble_since = 0.0
        # Wall clock.
        self.verified_at = 0.0

    def wake(self, *, stop: bool = False) -> None:
        """There is something new, or a pause shall end; `stop`: end when nothing is left."""
        with self._awake:
            self._asked = True
            self._stopping = self._stopping or stop
            self._awake.notify()

    def new(self) -> None:
        """There is something new; a pause after a failure goes on."""
        if not self._failures:
            self.wake()

    def run(self) -> None:
        """Until told to stop."""
        while True:
            entry = self._spool.claim()
            try:
                if entry is not None:
                    self._send(entry)
                elif self._stopping:
                    self._send_rollups(last=True)
                    return
                else:
                    self._send_rollups()
                    self._wait(_LOOK_SECONDS)
                    continue
                self._well()
            except (StoreTrouble, chunk.SealFailed, OSError) as error:
                self._failed(str(error))
                if self._stopping:
                    # What is left is on the disk, and goes first after the next start.
                    return
                self._wait(pause(self._failures, random.random()))  # noqa: S311 - no secret

    def _wait(self, seconds: float) -> None:
        with self._awake:
            if not self._asked:
                self._awake.wait(seconds)
            self._asked = False

    def _send(self, entry: Entry) -> None:
        try:
            body = spool.body(entry)
            self._store.put(entry.key, body, may_be_there=entry.found)
            self._state.shipped(entry, len(body))
            self._spool.remove(entry)
            self.verified_at = time.time()
        finally:
            self._spool.release()

    def _send_rollups(self, *, last: bool = False) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS and not last:
            return
        self._looked = now
        today = keys.day(int(time.time() * 1e6))
        for date, path in days(self._rollups):
            with open(path, "rb") as handle:
                data = handle.read()
            digest = hashlib.sha256(data).hexdigest()
            if self._state.rollups.get(date) == digest:
                continue
            recent = now - self._sent_today.get(date, -_TODAY_SECONDS) < _TODAY_SECONDS
            if date >= today and recent and not last:
                continue
            key = keys.rollup(self._server, date, machine(), sealed=bool(self._recipient))
            self._store.put(key, chunk.seal(data, self._recipient))
            self._sent_today[date] = now
            self._state.uploaded(date, digest)
        self._well()

    def _well(self) -> None:
        if self.trouble:
            self._say("the object store takes logs again")
        self._failures, self.trouble = 0, ""

    def _failed(self, why: str) -> None:
        self._failures += 1
        if not self.trouble:
            self.trouble_since = time.time()
            self._say(f"logs wait on the disk: {why}")
        self.trouble = why


def days(folder: str) -> list[tuple[str, str]]:
    """Dates and paths of the agent's daily accounts."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [(name[:-5], os.path.join(folder, name)) for name in names
            if name.endswith(".json") and not name.startswith(".")]  # fmt: skip


def machine() -> str:
    """Which installation this is: a rebuilt server is another."""
    with open("/etc/machine-id", encoding="ascii") as handle:
        return handle.read().strip()
