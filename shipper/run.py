"""The reading thread: from the sources into the spool, at intervals."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import asdict
from typing import Any

from shipper import chunk, containers, journal
from shipper.config import Config
from shipper.containers import Containers
from shipper.files import write_whole
from shipper.journal import JournalTrouble
from shipper.s3 import Place, Store
from shipper.spool import Spool
from shipper.state import State
from shipper.upload import Uploader

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
# New containers are looked for so often; one that is there for less time may be missed.
_SCAN_SECONDS = 1.0
_MOST_CHUNKS = 16
_OWN_UNIT = "gpuferry-logs.service"


def say(text: str) -> None:
    """For the journal, from where it is shipped as well."""
    print(text, file=sys.stderr, flush=True)


class Shipper:
    """Ties the parts together."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.state = State.load(config.state_folder)
        self.spool = Spool(os.path.join(config.state_folder, "spool"), self.state.highest)
        # Sentences about what was lost, to be counted and said: neither works on a full disk.
        self._lost = [
            f"a chunk in the spool was broken, its lines are lost: {what}"
            for what in self.spool.unreadable
        ]
        self._finish_drop()
        known = {**(self._position(containers.SOURCE) or {})}
        for container in self.state.ended:
            known.pop(container, None)
        self.containers = Containers(config.docker_folder, known)
        self.containers.ended |= set(self.state.ended)
        place = Place(
            config.endpoint, config.bucket, config.region, config.ca_pem, config.credentials_file
        )
        self.uploader = Uploader(
            self.spool, self.state, Store(place), config.server, config.recipient,
            config.rollup_folder, say,
        )  # fmt: skip
        # What could not be written to the disk; the journal can be read again, containers cannot.
        self._unspooled: tuple[chunk.Made, bytes] | None = None
        self._trouble = ""
        # When a reading of all sources began (wall clock), and the newest chunk after it.
        self._rounds: list[tuple[float, int]] = []
        self._complete_until = 0.0

    def _finish_drop(self) -> None:
        """A crash between counting and removing."""
        entry = self.spool.find(self.state.dropping)
        if entry is not None:
            self.spool.remove(entry)

    def _position(self, source: str) -> Any:
        """Where reading goes on: after what waits, else after what was verified."""
        waiting = self.spool.end(source)
        return self.state.positions.get(source) if waiting is None else waiting

    def run(self) -> None:
        """Until SIGTERM or SIGINT; SIGUSR1 ships at once."""
        # Waited for, not handled: a handler could come while this thread holds a lock.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        self.uploader.start()
        say(f"shipping to {self.config.bucket} at {self.config.endpoint}")
        due, stop = time.monotonic(), False
        while not stop:
            if time.monotonic() >= due:
                due = time.monotonic() + self.config.delay_seconds
                if not self.round():
                    due = 0.0
            self.containers.scan()
            self.tell()
            if not self.uploader.is_alive():
                # A fault of ours; systemd starts both anew, and nothing was lost.
                raise RuntimeError("the sending thread ended")
            got = signal.sigtimedwait(_SIGNALS, min(_SCAN_SECONDS, self.config.delay_seconds))
            if got is not None and got.si_signo == signal.SIGUSR1:
                # Also what `ferry check` looks for in the store.
                say("shipping at once, as asked")
                due = 0.0
                self.uploader.wake()
            stop = got is not None and got.si_signo != signal.SIGUSR1
        self.stop()

    def stop(self) -> None:
        """Take what is there and send it, as far as there is time; the rest is on the disk."""
        deadline = time.monotonic() + self.config.stop_seconds
        while not self.round(deadline) and time.monotonic() < deadline:
            pass
        self.uploader.wake(stop=True)
        self.uploader.join(max(0.0, deadline - time.monotonic()))
        self.tell()
        self.containers.close()

    def round(self, deadline: float | None = None) -> bool:
        """Read all sources once; False when there is more to be read at once."""
        began = time.time()
        self.containers.scan()
        try:
            # Both, whatever the first one says.
            whole = all([self._take_containers(deadline), self._take_journal(deadline)])
            self._count_lost()
            self._note_ended()
            self._trouble = ""
            if whole:
                self._rounds.append((began, self.spool.newest))
        except (OSError, JournalTrouble, chunk.SealFailed, ValueError) as error:
            whole = True
            if str(error) != self._trouble:
                say(f"reading stops for now: {error}")
            self._trouble = str(error)
        return whole

    def _count_lost(self) -> None:
        self._lost += [
            f"lines of container {name} were gone before they could be read"
            for name in self.containers.gaps()
        ]
        while self._lost:
            self.state.missed(None)
            say(self._lost.pop(0))

    def _note_ended(self) -> None:
        """Positions are written with the lines after them: who has none, is missed at a restart."""
        self.containers.ended &= set(self._position(containers.SOURCE) or {})
        self.state.gone(self.containers.ended)

    def _take_journal(self, deadline: float | None) -> bool:
        """Whether all of it was read."""
        position = self._position(journal.SOURCE)
        # What was lost is told in the shipper's own lines.
        units = (*self.config.units, _OWN_UNIT) if self.config.units else ()

        def gap(lines: int | None) -> None:
            self._journal_gap(lines, str(position))

        # In steps, between which new containers are found and a stop is heard.
        found = journal.chunks(position, units, gap)
        for number, made in enumerate(found, 1):
            self._keep(made, chunk.seal(made.body(self.config.server), self.config.recipient))
            late = deadline is not None and time.monotonic() > deadline
            if late or number == _MOST_CHUNKS:
                return False
        return True

    def _take_containers(self, deadline: float | None) -> bool:
        """Whether all was read that was there."""
        # Who logs faster than that must not keep the journal waiting.
        for _ in range(_MOST_CHUNKS):
            if self._unspooled is None:
                made = self.containers.take()
                if made is None:
                    return True
                self._unspooled = (made, made.body(self.config.server))
            made, body = self._unspooled
            self._keep(made, chunk.seal(body, self.config.recipient))
            self._unspooled = None
            if deadline is not None and time.monotonic() > deadline:
                break
        return False

    def _keep(self, made: chunk.Made, body: bytes) -> None:
        key = made.key(self.config.server, sealed=bool(self.config.recipient))
        self.spool.add(key, made.source, made.end, made.builder.lines, (made.first, made.last),
                       body)  # fmt: skip
        while self.spool.size > self.config.spool_bytes:
            entry = self.spool.give_up()
            if entry is None:
                break
            try:
                self.state.dropped(entry)
                self.spool.remove(entry)
            except OSError as error:
                self.spool.take_back(entry)
                say(f"the spool is too full, and nothing could be dropped: {error}")
                break
            say(
                f"dropped {entry.lines} lines of {entry.source} that the object store did not "
                f"take: the spool is full ({self.config.spool_bytes} bytes)"
            )
        self.uploader.new()

    def _journal_gap(self, lines: int | None, after: str) -> None:
        many = "an unknown number of" if lines is None else str(lines)
        if self.state.missed(lines, after):
            say(f"{many} journal entries were gone before they could be read")

    def tell(self) -> None:
        """Write the status: what `ferry check` reads."""
        oldest = self.spool.oldest()
        while self._rounds and (oldest is None or oldest.number > self._rounds[0][1]):
            self._complete_until = self._rounds.pop(0)[0]
        # While the store is away only the last one matters.
        del self._rounds[1:-1]
        with self.state.lock:
            told = {
                "at": time.time(),
                # All that was logged before then is in the store, or counted as lost.
                "complete_until": self._complete_until,
                "verified_at": self.uploader.verified_at,
                "trouble": self.uploader.trouble or self._trouble,
                "trouble_since": self.uploader.trouble_since if self.uploader.trouble else None,
                "waiting_chunks": self.spool.waiting,
                "waiting_bytes": self.spool.size,
                "oldest_waiting": oldest.first / 1e6 if oldest else None,
                "unread_containers": self.containers.others,
                "lost_at": self.state.lost_at,
                **asdict(self.state.counters),
            }
        try:
            write_whole(self.config.status_file, json.dumps(told).encode(), durable=False)
        except OSError as error:
            say(f"{self.config.status_file} cannot be written: {error}")
