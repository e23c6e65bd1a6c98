"""Seconds by use add up to elapsed time, whatever happens to clocks, counters and the agent."""

from __future__ import annotations

import json
import random

import pytest

from agent import accounting
from agent.accounting import Account, Use, advance, classify

Step = tuple[str, float, Use, float | None]


def run(*steps: Step, start: Account | None = None) -> Account:
    account = start
    for boot, at, use, counter in steps:
        account = advance(account, boot=boot, at=at, use=use, counter=counter, period=1.0)
    assert account is not None
    return account


@pytest.mark.parametrize(
    ("utilization", "processes", "expected"),
    [
        (0.05, 0, "busy"),
        (1.0, None, "busy"),
        (0.04, 1, "allocated_idle"),
        (0.0, 0, "free"),
        (0.0, None, "unknown"),
        (None, 0, "unknown"),
        (None, 1, "unknown"),
    ],
)
def test_a_sample_is_classified(
    utilization: float | None, processes: int | None, expected: Use
) -> None:
    assert classify(utilization, processes, 0.05) == expected


@pytest.mark.parametrize(
    ("what", "steps", "expected", "joules"),
    [
        ("the first look only begins", [("a", 100, "busy", 5.0)], (0, 0, 0, 0), 0),
        ("three busy seconds", [("a", t, "busy", 100.0 * t) for t in (10, 11, 12, 13)],
         (3, 0, 0, 0), 300),
        ("one late sample is still seen", [("a", 10, "free", None), ("a", 12.9, "free", None)],
         (0, 0, 2.9, 0), 0),
        ("a gap was not watched", [("a", 10, "busy", 0.0), ("a", 14, "busy", 400.0)],
         (0, 0, 0, 4), 400),
        ("a suspend of an hour", [("a", 10, "busy", 0.0), ("a", 11, "busy", 100.0),
         ("a", 3611, "busy", 150.0)], (1, 0, 0, 3600), 150),
        ("a reboot: what came before the first look is unknown",
         [("a", 500, "busy", 9000.0), ("b", 30, "free", 1500.0), ("b", 31, "free", 1520.0)],
         (0, 0, 1, 30), 1520),
        ("the counter begins again", [("a", 10, "busy", 9000.0), ("a", 11, "busy", 40.0),
         ("a", 12, "busy", 140.0)], (2, 0, 0, 0), 140),
        ("a counter that leaps is not energy (CAST#399)", [("a", 10, "busy", 5.0),
         ("a", 11, "busy", 9.2e18), ("a", 12, "busy", 9.2e18)], (2, 0, 0, 0), 0),
        ("a counter that is not told for a while", [("a", 10, "free", 10.0),
         ("a", 11, "unknown", None), ("a", 12, "unknown", None), ("a", 13, "free", 90.0)],
         (0, 0, 1, 2), 80),
        ("a slow cycle: the reading is repeated, then has grown by five seconds of 700 W",
         [("a", t, "busy", 100.0) for t in (10, 11, 12, 13, 14)] + [("a", 15, "busy", 3600.0)],
         (5, 0, 0, 0), 3500),
        ("the same moment twice", [("a", 10, "free", 1.0), ("a", 10, "busy", 1.0)],
         (0, 0, 0, 0), 0),
        ("a clock that goes back is not believed", [("a", 10, "free", 1.0), ("a", 5, "free", 1.0),
         ("a", 11, "free", 1.0)], (0, 0, 1, 0), 0),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_course_of_events(
    what: str, steps: list[Step], expected: tuple[float, ...], joules: float
) -> None:
    account = run(*steps)
    found = tuple(accounting.uses(account).values())
    assert found == pytest.approx(expected)
    assert account.elapsed == pytest.approx(sum(expected))
    assert account.joules == pytest.approx(joules)


@pytest.mark.parametrize("seed", range(100))
def test_the_uses_add_up_through_anything(seed: int) -> None:
    """Random lives: gaps, suspends, reboots, restarts of the agent, resets, missing readings."""
    rng = random.Random(seed)
    boot, at, counter = 0, rng.uniform(0, 1000), 0.0
    account: Account | None = None
    began, elapsed, true_joules = 0.0, 0.0, 0.0
    for _ in range(300):
        kind = rng.random()
        if kind < 0.02 and account is not None:
            elapsed += at - began
            boot, began, at, counter = boot + 1, 0.0, rng.uniform(1, 200), 0.0
        elif kind < 0.05:
            at += rng.uniform(5, 5000)
        else:
            at += rng.uniform(0.9, 1.4)
        if rng.random() < 0.02:
            counter = 0.0
        watts = rng.uniform(20, 700)
        counter += watts
        true_joules += watts
        told = counter if rng.random() > 0.1 else None
        use = rng.choice(accounting.USES)
        if account is None:
            began = at
        account = advance(account, boot=str(boot), at=at, use=use, counter=told, period=1.0)
        if rng.random() < 0.05:
            kept = json.loads(json.dumps(accounting.plain(account)))
            account = accounting.restored(kept)
            assert account is not None
    assert account is not None
    assert sum(accounting.uses(account).values()) == pytest.approx(account.elapsed)
    assert account.elapsed == pytest.approx(elapsed + at - began)
    assert min(accounting.uses(account).values()) >= 0
    assert 0 <= account.joules <= true_joules + 1e-6


def test_what_is_no_account_of_ours_is_not_restored() -> None:
    good = accounting.plain(Account("a", 1.0))
    assert accounting.restored(good) == Account("a", 1.0)
    assert accounting.restored({**good, "busy": "7"}) is None
    assert accounting.restored({"boot": "a"}) is None
