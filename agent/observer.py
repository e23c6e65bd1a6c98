"""Everything the agent knows: takes what is read, gives states, accounts and metrics' values.

Times are CLOCK_BOOTTIME, so that a suspend is a hole and not a moment. All methods are called
with `lock` held by whoever shares it with the scrapes.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from typing import Any

from agent import accounting
from agent.accounting import Account
from agent.config import Config
from agent.detect.state import State
from agent.detect.states import judge
from agent.gpu import Gpu
from agent.progress import Track, of_job
from agent.samples import Driver, HostPoint, Window, Work
from agent.xid_book import XidBook
from agent.xid_lines import Line, address

# Half an hour, as long as a GPU's own points: a rule looks at both.
_HOST_POINTS = 361
# What comes and goes is written down once in that time (DCGM#279: 250 MB of log a day).
_SAID_SECONDS = 600.0
# Stands for a UUID that the driver did not tell.
_NAMELESS = "index-"


class Observer:
    """The GPUs of this server."""

    def __init__(self, config: Config, boot: str, kept: dict[str, Any], book: XidBook) -> None:
        self.config = config
        self.boot = boot
        self.lock = threading.Lock()
        self.book = book
        self.gpus: dict[str, Gpu] = {
            uuid: Gpu(uuid, int(known["index"]), known["name"], known["pci"], seen=False)
            for uuid, known in kept.get("inventory", {}).items()
        }
        restored = {u: accounting.restored(a) for u, a in kept.get("accounts", {}).items()}
        self.accounts: dict[str, Account] = {u: a for u, a in restored.items() if a}
        self.driver = Driver("starting")
        self.driver_version = ""
        # Before the first inventory nobody is missed.
        self._inventory_known = False
        self.host: deque[HostPoint] = deque(maxlen=_HOST_POINTS)
        self.tracks: dict[str, Track] = {}
        self.states: dict[str, list[State]] = {}
        self.since: dict[tuple[str, str], float] = {}
        self._said: dict[tuple[str, str], float] = {}
        self.cycle_seconds: float | None = None
        self.sampled_at: float | None = None

    @property
    def visible(self) -> int | None:
        """GPUs that the driver shows; None before it said."""
        return sum(gpu.seen for gpu in self.gpus.values()) if self._inventory_known else None

    @property
    def expected(self) -> int:
        """GPUs that there should be: as declared, else as many as were ever seen."""
        return len(self.gpus) if self.config.expected_gpus is None else self.config.expected_gpus

    def hello(self, message: dict[str, Any]) -> None:
        """The driver's list of GPUs."""
        self.driver_version = message["driver"]
        for gpu in self.gpus.values():
            gpu.seen = False
        for told in message["gpus"]:
            uuid = told.get("uuid") or self._by_index(told["index"])
            gpu = self.gpus.setdefault(uuid, Gpu(uuid, told["index"]))
            gpu.seen = True
            if "error" in told:
                gpu.fail(told["error"], told["text"])
            else:
                gpu.index, gpu.name = told["index"], told["name"]
                gpu.pci = address(told["pci"]) if told["pci"] else ""
        self._inventory_known = True
        # One that once could not say who it is, has said so now.
        self.gpus = {u: g for u, g in self.gpus.items() if g.seen or not u.startswith(_NAMELESS)}
        present = sum(gpu.seen for gpu in self.gpus.values())
        if self.config.expected_gpus is not None and present >= self.config.expected_gpus:
            # Exchanged ones are not missed when all that were declared are there.
            self.gpus = {uuid: gpu for uuid, gpu in self.gpus.items() if gpu.seen}

    def _by_index(self, index: int) -> str:
        """A GPU that cannot say who it is, is who was there before."""
        known = (g.uuid for g in self.gpus.values() if g.index == index and not g.seen)
        return next(known, f"{_NAMELESS}{index}")

    def sample(self, message: dict[str, Any], now: float) -> list[tuple[str, int]]:
        """One cycle of the child; returns the Xid events in it."""
        self.sampled_at, self.cycle_seconds = now, float(message["took"])
        for uuid, told in message["gpus"].items():
            if gpu := self.gpus.get(uuid):
                gpu.take(told, now)
        for uuid, gpu in self.gpus.items():
            # Listed with an error at the start, so the child has no handle for it.
            if gpu.seen and gpu.error is not None and uuid not in message["gpus"]:
                gpu.error_polls += 1
        return [(uuid, code) for uuid, code in message["xids"]]

    def xid(self, line: Line, at: float, clock: float) -> bool:
        """Note a fault; False when it is known already."""
        return self.book.add(line, at, clock)

    def account(self, now: float) -> None:
        """Add the time since the last call to every account."""
        for uuid, gpu in self.gpus.items():
            # MEDIUM readings are fresh for longer; what counts is that the GPU answers now.
            fresh = gpu.value("utilization", now) if self.driver.status == "ok" else None
            pids = gpu.value("pids", now)
            use = accounting.classify(
                fresh if gpu.seen else None,
                None if pids is None else len(pids),
                self.config.thresholds.idle_utilization,
            )
            self.accounts[uuid] = accounting.advance(
                self.accounts.get(uuid),
                boot=self.boot,
                at=now,
                use=use,
                counter=gpu.value("energy_joules", now),
                period=self.config.sample_seconds,
            )

    def named(self) -> set[str]:
        """GPUs that have said who they are."""
        return {uuid for uuid in self.accounts if not uuid.startswith(_NAMELESS)}

    def listed(self, now: float) -> dict[str, list[int]]:
        """Processes by GPU, of those GPUs that tell them."""
        told = {uuid: gpu.value("pids", now) for uuid, gpu in self.gpus.items()}
        return {uuid: pids for uuid, pids in told.items() if pids is not None}

    def condense(self, now: float, work: dict[str, Work], host: HostPoint | None) -> None:
        """Make points of the last seconds."""
        for uuid, gpu in self.gpus.items():
            gpu.condense(now, work.get(uuid))
        if host:
            self.host.append(replace(host, at=now))

    def evaluate(self, now: float) -> list[str]:
        """Judge every GPU; returns sentences about what changed."""
        said = []
        for uuid, gpu in self.gpus.items():
            work = gpu.points[-1].work if gpu.points else None
            pids = work.pids if work else ()
            window = Window(
                now=now,
                points=tuple(gpu.points),
                host=tuple(self.host),
                health=replace(
                    gpu.health(now, self.book.of(gpu.pci, now)),
                    seen=gpu.seen or not self._inventory_known,
                ),
                driver=self.driver,
                progress=of_job(
                    self.tracks,
                    pids,
                    now,
                    self.config.progress_folder,
                    work.started if work else None,
                ),
            )
            states = judge(window, self.config.thresholds)
            before = {state.name for state in self.states.get(uuid, [])}
            for state in states:
                if state.name not in before:
                    self.since[uuid, state.name] = now
                    # The first minute after a start is unknown, which is no news.
                    known_for = now - self._said.get((uuid, state.name), now - _SAID_SECONDS)
                    if (
                        state.severity != "info"
                        and state.name != "unknown"
                        and known_for >= _SAID_SECONDS
                    ):
                        self._said[uuid, state.name] = now
                        said.append(f"GPU {gpu.index}: {state.name}: {state.evidence}")
            for name in before - {state.name for state in states}:
                self.since.pop((uuid, name), None)
            self.states[uuid] = states
        for uuid in set(self.states) - set(self.gpus):
            del self.states[uuid]
        return said

    def plain(self) -> dict[str, Any]:
        """For the state file; GPUs that never said who they are, are not kept."""
        inventory = {
            uuid: {"index": gpu.index, "name": gpu.name, "pci": gpu.pci}
            for uuid, gpu in self.gpus.items()
            if not uuid.startswith(_NAMELESS)
        }
        accounts = {uuid: accounting.plain(a) for uuid, a in self.accounts.items()
                    if not uuid.startswith(_NAMELESS)}  # fmt: skip
        return {"inventory": inventory, "accounts": accounts, "xids": self.book.plain()}
