"""Locks of dead runs go; locks of live ones, or of other machines, stay."""

from __future__ import annotations

import datetime
import json
import os
import socket
from pathlib import Path

import pytest

from gpuferry.engine import locks
from gpuferry.engine.find import without_sidecars
from gpuferry.errors import StackLocked

NOW = datetime.datetime(2026, 1, 1, 12, 0, tzinfo=datetime.UTC)
HERE = socket.gethostname()


def lock(machine: str = HERE, pid: int = 4, age: int = 60) -> locks.Lock:
    return locks.Lock(Path("x"), pid, "anna", machine, NOW - datetime.timedelta(seconds=age))


@pytest.mark.parametrize(
    ("machine", "started_seconds_before_lock", "stale"),
    [
        (HERE, None, True),  # no such process
        (HERE, 30, False),  # the process was there before the lock
        (HERE, 0.5, False),
        (HERE, -30, True),  # a younger process has the same id
        ("elsewhere", None, False),  # cannot be judged from here
    ],
)
def test_only_a_run_that_is_over_for_certain_is_stale(
    machine: str, started_seconds_before_lock: float | None, stale: bool
) -> None:
    held = lock(machine)
    started = (
        None
        if started_seconds_before_lock is None
        else held.since.timestamp() - started_seconds_before_lock
    )
    assert held.is_stale(HERE, started) is stale


@pytest.mark.parametrize(
    ("age", "words"), [(5, "for 5 s"), (119, "for 119 s"), (600, "for 10 min")]
)
def test_a_lock_is_described_with_its_age(age: int, words: str) -> None:
    assert lock(age=age).describe(NOW) == f"process 4 of anna on {HERE}, {words}"


def write(state: Path, pid: int, machine: str = HERE, stamp: str | None = None) -> Path:
    folder = state / ".pulumi/locks/organization/gpuferry/local"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{pid}.json"
    stamp = stamp or datetime.datetime.now(datetime.UTC).isoformat()
    content = {"pid": pid, "username": "anna", "hostname": machine, "timestamp": stamp}
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    "stamp",
    ["2026-01-01T12:00:00.123456789Z", "2026-01-01T14:00:00.1+02:00", "2026-01-01T12:00:00Z"],
)
def test_the_engines_time_stamps_are_read(tmp_path: Path, stamp: str) -> None:
    write(tmp_path, 1, stamp=stamp)
    (found,) = locks.read(tmp_path, "gpuferry", "local")
    assert found.since.astimezone(datetime.UTC).replace(microsecond=0) == NOW


def test_a_dead_runs_lock_is_removed(tmp_path: Path) -> None:
    path = write(tmp_path, 2**22 + 5)  # above the largest process id
    (said,) = locks.clear_or_refuse(tmp_path, "gpuferry", "local", take_over=False)
    assert "a run that is over" in said
    assert not path.exists()


def test_a_live_runs_lock_is_respected_even_when_asked_to_take_over(tmp_path: Path) -> None:
    path = write(tmp_path, os.getpid())
    with pytest.raises(StackLocked, match=f"kill -INT {os.getpid()}"):
        locks.clear_or_refuse(tmp_path, "gpuferry", "local", take_over=True)
    assert path.exists()


def test_another_machines_lock_needs_a_word(tmp_path: Path) -> None:
    path = write(tmp_path, 1, "elsewhere")
    with pytest.raises(StackLocked, match="--take-over-lock"):
        locks.clear_or_refuse(tmp_path, "gpuferry", "local", take_over=False)
    assert path.exists()
    locks.clear_or_refuse(tmp_path, "gpuferry", "local", take_over=True)
    assert not path.exists()


def test_a_half_written_lock_is_not_an_error(tmp_path: Path) -> None:
    write(tmp_path, 1).write_text("{")
    assert locks.read(tmp_path, "gpuferry", "local") == []


@pytest.mark.parametrize(
    ("url", "used"),
    [
        ("file:///srv/state", "file:///srv/state?metadata=skip"),
        ("file:///srv/state?no_tmp_dir=true", "file:///srv/state?no_tmp_dir=true&metadata=skip"),
        ("file:///srv/state?metadata=skip", "file:///srv/state?metadata=skip"),
        ("s3://state?region=x", "s3://state?region=x"),
    ],
)
def test_a_local_state_is_kept_without_files_that_a_kill_leaves_empty(url: str, used: str) -> None:
    assert without_sidecars(url) == used


@pytest.mark.parametrize(
    ("line", "who"),
    [
        (
            "  s3://state/.pulumi/locks/organization/gpuferry/prod/0b1c.json: created by "
            "anna@laptop (pid 7) at 2026-12-01T10:00:00+01:00",
            "process 7 of anna on laptop, since 2026-12-01T10:00:00+01:00",
        ),
        (
            "  file:///state/.pulumi/locks/organization/p/s/aa.json?metadata=skip&no_tmp_dir=true: "
            "created by Anna B@laptop (pid 7) at 2026-12-01T10:00:00Z",
            "process 7 of Anna B on laptop, since 2026-12-01T10:00:00Z",
        ),
        ("error: the stack is currently locked by 1 lock(s).", None),
    ],
)
def test_the_engines_list_of_locks_names_the_holder(line: str, who: str | None) -> None:
    assert locks.holder(line) == who
