"""The days add up to the account, whatever happens to the clock."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.accounting import USES, Account
from agent.day_files import DayFiles
from agent.days import KEPT_DAYS, Days, spread

MIDNIGHT = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC).timestamp()
DAY = 86400.0


def account(joules: float = 0.0, **uses: float) -> dict[str, Account]:
    return {"u": Account("b", 0.0, elapsed=sum(uses.values()), joules=joules, **uses)}


def days(kept: Mapping[str, Any] | None = None) -> Days:
    return Days(kept or {}, lambda date: {})


@pytest.mark.parametrize(
    ("wall", "seconds", "expected"),
    [
        (MIDNIGHT + 10, 4, {"2026-12-01": 4}),
        (MIDNIGHT + 10, 10, {"2026-12-01": 10}),
        (MIDNIGHT + 10, 14, {"2026-12-01": 10, "2026-11-30": 4}),
        (MIDNIGHT, 5, {"2026-12-01": 0, "2026-11-30": 5}),
        (MIDNIGHT + 1, 2 * DAY, {"2026-12-01": 1, "2026-11-30": DAY, "2026-11-29": DAY - 1}),
        (MIDNIGHT + 1, 0, {"2026-12-01": 0}),
        # A clock that was never set.
        (0.0, 7, {"1970-01-01": 7}),
        (5.0, 7, {"1970-01-01": 7}),
    ],
)
def test_an_interval_is_spread_over_its_days(
    wall: float, seconds: float, expected: dict[str, float]
) -> None:
    found: dict[str, float] = {}
    for date, part in spread(wall, seconds):
        found[date] = found.get(date, 0) + part
    assert found == pytest.approx(expected, abs=0.01)


def test_what_was_before_the_first_look_is_of_no_day() -> None:
    book = days()
    book.account(account(busy=1000.0), MIDNIGHT - 10)
    book.account(account(busy=1004.0, joules=40.0), MIDNIGHT - 6)
    day = book.day("2026-11-30")["u"]
    assert (day["busy_seconds"], day["energy_joules"]) == (4, 40)


def test_a_night_without_the_agent_is_split_at_midnight() -> None:
    book = days()
    book.account(account(), MIDNIGHT - 100)
    book.account(account(unknown=160.0, joules=320.0), MIDNIGHT + 60)
    assert book.day("2026-11-30")["u"]["unknown_seconds"] == pytest.approx(100, abs=0.01)
    assert book.day("2026-12-01")["u"]["unknown_seconds"] == pytest.approx(60, abs=0.01)
    assert book.day("2026-12-01")["u"]["energy_joules"] == pytest.approx(120, abs=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_the_days_add_up_to_the_account(seed: int) -> None:
    """Clocks that jump by weeks both ways, restarts, gaps."""
    rng = random.Random(seed)
    written: dict[str, Any] = {}
    book = Days({}, lambda date: written.get(date, {}))
    uses = dict.fromkeys(USES, 0.0)
    joules, wall = 0.0, MIDNIGHT
    book.account(account(), wall)
    for _ in range(300):
        step = rng.choice([1.0, 1.0, 1.0, 30.0, 7200.0, 200_000.0])
        wall += step + rng.choice([0.0] * 20 + [-20 * DAY, 20 * DAY, 0.5, -3600.0])
        uses[rng.choice(USES)] += step
        joules += step * rng.random() * 700
        book.account(account(joules, **uses), wall)
        if rng.random() < 0.2:
            written.update({date: book.day(date) for date in book.changed})
            book.changed.clear()
            book.tidy()
            book = Days(json.loads(json.dumps(book.plain())), lambda date: written.get(date, {}))
    written.update({date: book.day(date) for date in book.changed})
    for use in USES:
        total = sum(day["u"][f"{use}_seconds"] for day in written.values())
        assert total == pytest.approx(uses[use], rel=1e-9, abs=1e-6)
    assert sum(d["u"]["energy_joules"] for d in written.values()) == pytest.approx(joules)
    for day in written.values():
        assert all(day["u"][f"{use}_seconds"] >= 0 for use in USES)


def test_memory_is_the_most_of_the_day_and_absent_when_never_told() -> None:
    book = days()
    for used in (None, 5.0, 9.0, 7.0, None):
        book.memory("u", used, MIDNIGHT)
    assert book.day("2026-12-01")["u"]["peak_memory_bytes"] == 9
    book.account(account(), MIDNIGHT + DAY)
    book.account(account(busy=1.0), MIDNIGHT + DAY + 1)
    assert book.day("2026-12-02")["u"]["peak_memory_bytes"] is None


def test_each_xid_is_of_the_day_it_came_on() -> None:
    book = days()
    pci = {"0000:01": "u"}
    book.xids({"0000:01 31": 4}, pci, MIDNIGHT - 5)
    book.xids({"0000:01 31": 5, "0000:01 79": 1, "0000:99 79": 1}, pci, MIDNIGHT - 1)
    book.xids({"0000:01 31": 5, "0000:01 79": 2}, pci, MIDNIGHT + 1)
    assert book.day("2026-11-30")["u"]["xids"] == {"31": 1, "79": 1}
    assert book.day("2026-12-01")["u"]["xids"] == {"79": 1}


def test_files_tell_whether_their_day_is_over(tmp_path: Path) -> None:
    files, book = DayFiles(str(tmp_path)), days()
    book.account(account(), MIDNIGHT - 5)
    book.account(account(busy=7.0), MIDNIGHT + 2)
    files.write(book, {"u": (0, "L4")}, MIDNIGHT + 2)
    told = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*.json"))]
    assert [(d["date"], d["complete"]) for d in told] == [
        ("2026-11-30", True),
        ("2026-12-01", False),
    ]
    assert (told[0]["gpus"][0]["uuid"], told[0]["gpus"][0]["name"]) == ("u", "L4")
    assert (tmp_path / "2026-11-30.json").stat().st_mode & 0o777 == 0o644
    assert files.load("2026-11-30") == {"u": book.day("2026-11-30")["u"]}
    assert files.load("2020-01-01") == {}
    assert not book.changed


def test_a_folder_that_is_not_there_is_told_and_nothing_is_forgotten(tmp_path: Path) -> None:
    files, book = DayFiles(str(tmp_path / "none")), days()
    for number in range(KEPT_DAYS + 3):
        book.memory("u", 1.0, MIDNIGHT + number * DAY)
    files.write(book, {}, MIDNIGHT)
    assert "cannot be written" in files.trouble
    book.tidy()
    assert len(book.plain()["days"]) == KEPT_DAYS + 3
