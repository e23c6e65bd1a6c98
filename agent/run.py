"""The agent's loop: everything that takes time is elsewhere, so that it is never late to tell."""

from __future__ import annotations

import copy
import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent import store, xid
from agent.config import Config
from agent.day_files import DayFiles
from agent.days import Days
from agent.disks import Disks
from agent.gpu import POINT_SECONDS
from agent.host import Host
from agent.kernel_log import KernelLog
from agent.metrics import Exposition, Own
from agent.nvml.supervisor import Limits, Supervisor, silent_seconds
from agent.observer import Observer
from agent.processes import Processes
from agent.progress import ProgressFiles, plain, restored
from agent.samples import Driver
from agent.server import Server, ensure_token
from agent.told import state as page
from agent.xid_book import XidBook
from agent.xid_lines import Line, Parser

_SAVE_SECONDS = 30.0
_LAST_SAVE_SECONDS = 10.0
_DISK_SECONDS = 30.0
CATALOGUE = Path(__file__).with_name("xid.json")


def clock() -> float:
    """Seconds since boot, suspends included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def suspended() -> float:
    """Seconds that this boot has slept: the kernel's log does not count them."""
    return max(0.0, clock() - time.monotonic())


def say(text: str) -> None:
    """For the journal."""
    print(text, file=sys.stderr, flush=True)


class Unusable(Exception):
    """What the agent cannot start without; the text names it."""


class Agent:
    """Ties the parts together."""

    def __init__(
        self, config: Config, root: Path = Path("/"), limits: Limits | None = None
    ) -> None:
        self.config = config
        self._boot = (root / "proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        self._state = Path(config.state_file)
        self._day_files = DayFiles(config.rollup_folder)
        try:
            self._restore(store.read(self._state))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Of another release, or changed by somebody: it costs history, nothing else.
            say(f"{self._state} is left behind: {type(error).__name__}: {error}")
            self._restore({})
        self.supervisor = Supervisor(config.sample_seconds, limits or Limits(), say)
        self._host, self._processes = Host(root), Processes(root)
        self._disks = Disks(config.mounts)
        self._own = Own(started=time.time())
        self._exposition = Exposition(self.observer, self._disks, self._own, clock)
        self._stopping = False
        self._pending = False
        self._saving: threading.Thread | None = None

    def _restore(self, kept: dict[str, Any]) -> None:
        config, cursors = self.config, kept.get("cursors", {})
        progress = kept.get("progress", {})
        same = progress.get("boot") == self._boot
        tracks = restored(progress.get("tracks", {})) if same else {}
        self._progress = ProgressFiles(config.progress_folder, config.progress_files, tracks)
        book = XidBook(xid.catalogue(CATALOGUE), self._boot, kept.get("xids", {}))
        self.observer = Observer(config, self._boot, kept, book)
        self._days = Days(kept.get("days", {}), self._day_files.load)
        self._logs = [
            (KernelLog(p, self._boot, cursors.get(p)), Parser()) for p in config.kernel_logs
        ]

    def run(self) -> None:
        """Until SIGTERM or SIGINT.

        Raises:
            Unusable: the address cannot be listened on, or the token not be written.
        """
        try:
            if self.config.token_file:
                ensure_token(Path(self.config.token_file))
        except OSError as error:
            raise Unusable(f"no token in {self.config.token_file}: {error}") from None
        pages: dict[str, Callable[[], bytes]] = {
            "/metrics": self._exposition.text,
            "/state": self.state,
        }
        listen, port = self.config.listen, self.config.port
        try:
            server = Server(
                listen, port, self.config.token_file, pages, say, self.config.scrape_token_file
            )
        except OSError as error:
            raise Unusable(f"{listen} port {port} cannot be used: {error}") from None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._end)
        say(f"listening on {listen} port {port}")
        try:
            self._loop()
        finally:
            server.shutdown()
            self.supervisor.stop()
            self.saved()
            self._save()
            self.saved()

    def _end(self, *_: object) -> None:
        # No event: this runs in the midst of the loop, which may hold the event's own lock.
        self._stopping = True

    def _loop(self) -> None:
        period = self.config.sample_seconds
        due = {"second": 0.0, "point": 0.0, "disks": 0.0, "save": clock() + _SAVE_SECONDS}
        while not self._stopping:
            self._listen(min(period, 1.0))
            now = clock()
            changed = self._driver(now)
            if now >= due["second"]:
                due["second"] = max(due["second"] + period, now)
                changed = self._read_logs(now) or changed
                with self.observer.lock:
                    self.observer.account(now)
                    self._note_day(now, time.time())
            if now >= due["point"]:
                due["point"] = max(due["point"] + POINT_SECONDS, now)
                self._point(now)
                changed = True
            if changed:
                with self.observer.lock:
                    said = self.observer.evaluate(now)
                for sentence in said:
                    say(sentence)
            if now >= due["disks"]:
                due["disks"] = now + _DISK_SECONDS
                self._disks.ask()
            if self._pending or now >= due["save"]:
                due["save"] = now + _SAVE_SECONDS
                self._save()

    def _listen(self, seconds: float) -> None:
        """Take what the child says; at most so long, and never a busy loop without one."""
        if self.supervisor.pid is None:
            time.sleep(seconds)
            return
        started = time.monotonic()
        messages = self.supervisor.messages(seconds)
        if not messages:
            time.sleep(max(0.0, min(0.1, seconds - (time.monotonic() - started))))
        for message in messages:
            self.supervisor.heard(message, time.monotonic())
            with self.observer.lock:
                if message["kind"] == "hello":
                    self.observer.hello(message)
                elif message["kind"] == "sample":
                    now = clock()
                    for uuid, code in self.observer.sample(message, now):
                        gpu = self.observer.gpus.get(uuid)
                        line = Line("xid", code, gpu.pci if gpu else "", "", "")
                        self._pending |= self.observer.xid(line, now, time.time())

    def _driver(self, now: float) -> bool:
        """Look after the child; True when something is to be judged at once."""
        monotonic = time.monotonic()
        if self.config.nvml:
            self.supervisor.step(monotonic)
        life = self.supervisor.life
        own = self._own
        own.child_starts, own.abandoned = self.supervisor.starts, life.abandoned
        own.child_pid, own.child_silent = self.supervisor.pid, silent_seconds(life, monotonic)
        if not self.config.nvml:
            driver = Driver("off")
        elif life.hung:
            # Across restarts of the child: since the last sample.
            silent = now - (self.observer.sampled_at or now - own.child_silent)
            driver = Driver("hung", self.supervisor.hung_in, silent)
        elif self.supervisor.trouble:
            driver = Driver("failed", self.supervisor.trouble["text"])
        else:
            driver = Driver("ok" if life.phase == "running" else "starting")
        with self.observer.lock:
            before, self.observer.driver = self.observer.driver, driver
            failing = any(
                0 < gpu.error_polls <= self.config.thresholds.fault_polls
                for gpu in self.observer.gpus.values()
            )
        return driver.status != before.status or failing

    def _read_logs(self, now: float) -> bool:
        """Faults in the kernel's log; True when one is new."""
        new = False
        for log, parser in self._logs:
            for record in log.read():
                line = parser.parse(record.text)
                if line is None:
                    continue
                # Right since the last suspend, which is what a running agent reads.
                at = min(now, record.seconds + suspended())
                with self.observer.lock:
                    new |= self.observer.xid(line, at, time.time() - (now - at))
        self._own.log_lost = sum(log.lost for log, _ in self._logs)
        self._pending |= new
        return new

    def _point(self, now: float) -> None:
        with self.observer.lock:
            listed = self.observer.listed(now)
        # Outside the lock: /proc can be slow on a busy server.
        work, host = self._processes.work(listed), self._host.point()
        self._progress.ask(now, time.time())
        with self.observer.lock:
            self.observer.tracks = self._progress.tracks
            self.observer.condense(now, work, host)
            self.observer.book.tidy(now)

    def _note_day(self, now: float, wall: float) -> None:
        observer = self.observer
        known = {u: a for u, a in observer.accounts.items() if u in observer.named()}
        self._days.account(known, wall)
        for uuid in known:
            gpu = observer.gpus.get(uuid)
            used = gpu.value("memory_used_bytes", now) if gpu else None
            self._days.memory(uuid, used, wall)
        uuids = {gpu.pci: uuid for uuid, gpu in observer.gpus.items() if gpu.pci}
        self._days.xids(observer.book.counts, uuids, wall)

    def _save(self) -> None:
        """Write the state in a thread: on a busy disk that takes seconds, and samples wait."""
        if self._saving and self._saving.is_alive():
            return
        with self.observer.lock:
            data = self.observer.plain()
            # A copy: it is written while the days go on.
            data["days"] = copy.deepcopy(self._days.plain())
            gpus = {uuid: (gpu.index, gpu.name) for uuid, gpu in self.observer.gpus.items()}
            texts = self._day_files.texts(self._days, gpus, time.time())
        data["cursors"] = {log.path: log.cursor for log, _ in self._logs}
        data["progress"] = {"boot": self._boot, "tracks": plain(self._progress.tracks)}
        self._pending = False
        self._saving = threading.Thread(target=self._write, args=(data, texts), daemon=True)
        self._saving.start()

    def saved(self) -> None:
        """Wait for what is being written, if it does not take forever."""
        if self._saving:
            self._saving.join(_LAST_SAVE_SECONDS)

    def _write(self, data: dict[str, Any], texts: dict[str, str]) -> None:
        try:
            store.write(self._state, data)
        except OSError as error:
            if not self._own.unsaved:
                say(f"{self._state} cannot be written: {error}")
            self._own.unsaved += 1
            with self.observer.lock:
                self._days.changed |= set(texts)
            return
        # After the state, which a crash goes back to: files then hold no more than it does.
        before, failed = self._day_files.trouble, self._day_files.put(texts)
        if failed:
            with self.observer.lock:
                self._days.changed |= failed
        if self._day_files.trouble and not before:
            say(self._day_files.trouble)

    def state(self) -> bytes:
        """What every GPU does, with evidence and next step, as JSON."""
        with self.observer.lock:
            told = page(self.observer, self._disks, clock())
        return json.dumps(told).encode()
