"""Traces that were recorded from simulated GPUs, replayed with a clock of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.config import parse
from agent.observer import Observer
from agent.samples import Driver, HostPoint, Work
from agent.xid_book import XidBook
from gpuferry.driver.rules import table
from gpuferry.paths import REPOSITORY

FOLDER = REPOSITORY / "tests/fixtures/agent"
QUICK = {
    "window_seconds": 10, "leaked_seconds": 10, "hung_seconds": 15, "warm_up_seconds": 10,
    "throttle_hardware_seconds": 10, "moving_bytes_per_second": 1e12,
}  # fmt: skip
START = 5000.0


def replay(name: str) -> tuple[Observer, list[tuple[float, dict[int, list[str]]]]]:
    """The observer at the end, and the states of each GPU over time."""
    observer = Observer(parse({"thresholds": QUICK}), "b", {}, XidBook(table("xid"), "b", {}))
    observer.driver = Driver("ok")
    seen = []
    for line in (FOLDER / f"{name}.jsonl").read_text().splitlines():
        told: dict[str, Any] = json.loads(line)
        now = START + told["t"]
        if "read" in told and told["read"]["kind"] == "hello":
            observer.hello(told["read"])
        elif "read" in told:
            observer.sample(told["read"], now)
            observer.account(now)
        else:
            work = {uuid: Work(**{k: tuple(v) if isinstance(v, list) else v for k, v in w.items()})
                    for uuid, w in told["work"].items()}  # fmt: skip
            observer.condense(now, work, HostPoint(**told["host"]) if told["host"] else None)
        observer.evaluate(now)
        states = {g.index: [s.name for s in observer.states[u]] for u, g in observer.gpus.items()}
        seen.append((told["t"], states))
    return observer, seen


def course(seen: list[tuple[float, dict[int, list[str]]]], gpu: int) -> list[str]:
    """The first states of a GPU, each named once while it lasts."""
    firsts = [states[gpu][0] for _, states in seen if gpu in states]
    return [s for i, s in enumerate(firsts) if i == 0 or s != firsts[i - 1]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("job", ["unknown", "idle", "working", "idle"]),
        ("spinning", ["unknown", "working", "collective_hung"]),
        ("leaked", ["unknown", "leaked_memory"]),
        ("throttled", ["unknown", "working"]),
    ],
)
def test_a_course_of_states(name: str, expected: list[str]) -> None:
    _, seen = replay(name)
    assert course(seen, 0) == expected
    assert course(seen, 1) == ["unknown", "idle"]


def test_throttling_is_told_beside() -> None:
    _, seen = replay("throttled")
    assert seen[-1][1][0] == ["working", "throttled"]


def test_a_loss_is_a_fault_until_the_gpu_answers_again() -> None:
    _, seen = replay("lost")
    faulty = [t for t, states in seen if states.get(1) == ["fault"]]
    assert 8 < faulty[0] < 12
    assert 15 < faulty[-1] < 19
    assert all("fault" not in states[0] for _, states in seen if 0 in states)


def test_busy_seconds_are_those_of_the_job() -> None:
    observer, _ = replay("job")
    (account,) = (observer.accounts[u] for u, g in observer.gpus.items() if g.index == 0)
    assert account.busy == pytest.approx(20, abs=3)
    assert account.busy + account.free + account.allocated_idle == pytest.approx(account.elapsed)
    assert account.joules == pytest.approx(20 * 71 + (account.elapsed - 20) * 17, rel=0.15)
