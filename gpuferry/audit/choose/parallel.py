"""Long tables on all processors: forked workers, whose decisions come back without the rows."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuferry.audit.choose.decision import Decision
from gpuferry.audit.choose.fleet import Fleet
from gpuferry.audit.garbage import without_collections
from gpuferry.audit.read.workload import Workload

Decide = Callable[[Workload], Decision]
_NOBODY = Workload(0, "", "")
# More pieces than processors, so that a slow piece does not hold up the end.
PIECES = 4


@dataclass
class _Work:
    decide: Decide
    workloads: list[Workload]
    fleet: Fleet


# Set before the fork: workers find it in their copy of the memory, so nothing is sent to them.
_work: _Work | None = None


def split(
    decide: Decide, workloads: list[Workload], fleet: Fleet, processes: int
) -> list[Decision]:
    """Decide about all; in this process when one is enough, or the system cannot fork."""
    global _work
    alone = threading.active_count() == 1
    if processes < 2 or not alone or "fork" not in multiprocessing.get_all_start_methods():
        return [decide(w) for w in workloads]
    step = max(1, len(workloads) // (processes * PIECES) + 1)
    pieces = [(at, at + step) for at in range(0, len(workloads), step)]
    _work = _Work(decide, workloads, fleet)
    decisions: list[Decision] = []
    try:
        with warnings.catch_warnings():
            # Python 3.12 warns of threads before a fork: numpy's own, which workers never use.
            warnings.simplefilter("ignore", DeprecationWarning)
            pool = multiprocessing.get_context("fork").Pool(processes, _start_worker)
        with (
            pool,
            without_collections(),
        ):  # leaving it ends the workers, also when somebody interrupts
            for found, places in pool.imap(_piece, pieces):
                decisions += found
                fleet.give_places(places)
    finally:
        _work = None
    for decision, workload in zip(decisions, workloads, strict=True):
        decision.workload = workload
    return decisions


def _start_worker() -> None:
    """Ctrl-C reaches the whole group; the parent ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()  # it ends soon, and nothing that it makes refers to itself


def _piece(span: tuple[int, int]) -> tuple[list[Decision], dict[str, tuple[Any, Any]]]:
    assert _work is not None
    found = [_work.decide(w) for w in _work.workloads[slice(*span)]]
    for decision in found:
        decision.workload = _NOBODY
    return found, _work.fleet.take_places()
