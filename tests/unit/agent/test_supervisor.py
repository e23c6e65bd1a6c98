"""When the reader is started, ended and given up; and the real thing with readers that hang."""

from __future__ import annotations

import subprocess

import pytest

from agent.nvml.supervisor import (
    Life,
    Limits,
    Step,
    Supervisor,
    back_off,
    decide,
    notice,
    silent_seconds,
)

L = Limits()


@pytest.mark.parametrize(
    ("what", "life", "now", "expected"),
    [
        ("nothing yet", Life(), 0.0, "start"),
        ("ended once, just now", Life(since=10, failures=1), 10.5, "wait"),
        ("ended once, a second ago", Life(since=10, failures=1), 11.0, "start"),
        ("ended four times: 8 s", Life(since=10, failures=4), 17.0, "wait"),
        ("ended fifty times: never more than 15 s", Life(since=10, failures=50), 25.0, "start"),
        ("two are stuck in the driver", Life(since=0, abandoned=2), 1e6, "wait"),
        ("one is stuck", Life(since=0, failures=1, abandoned=1), 1e6, "start"),
        ("running, heard of lately", Life("running", 0, heard=100), 109.0, "wait"),
        ("running, silent", Life("running", 0, heard=100), 110.1, "terminate"),
        ("a slow initialisation", Life("starting", 100), 159.0, "wait"),
        ("an initialisation that hangs", Life("starting", 100), 161.0, "terminate"),
        ("asked to end", Life("ending", 100), 109.0, "wait"),
        ("does not end", Life("ending", 100), 111.0, "abandon"),
    ],
)
def test_what_to_do(what: str, life: Life, now: float, expected: Step) -> None:
    assert decide(life, now, L) == expected


def test_silence_is_counted_from_the_start_of_a_life() -> None:
    assert silent_seconds(Life("starting", since=50, heard=10), 55) == 5
    assert silent_seconds(Life("absent", since=50), 500) == 0


def test_a_hang_is_noticed_in_time_and_only_a_sample_ends_it() -> None:
    life = notice(Life("running", 0, heard=100), 110.5, L)
    assert life.hung
    assert L.silence + 1 < 15, "the promise"
    assert notice(Life("absent", 120, hung=True), 500, L).hung
    assert not notice(Life("starting", 100), 109, L).hung


def test_an_agent_that_was_stopped_itself_does_not_blame_the_driver() -> None:
    supervisor = Supervisor(1.0, L, lambda text: None)
    supervisor.life = Life("running", 0, heard=100)
    supervisor.step(100)
    supervisor.step(170)
    assert not supervisor.life.hung
    supervisor.step(172)
    assert not supervisor.life.hung
    supervisor.step(174)
    assert supervisor.life.hung, "its child had time to be heard"


def test_an_agent_that_is_always_late_still_finds_a_hang() -> None:
    supervisor = Supervisor(1.0, L, lambda text: None)
    supervisor.life = Life("running", 0, heard=100)
    for now in (100, 106, 112, 118):
        supervisor.step(now)
    assert supervisor.life.hung


def test_the_back_off_grows_to_its_limit() -> None:
    assert [back_off(n, L) for n in (0, 1, 2, 3, 7, 100)] == [0, 1, 2, 4, 15, 15]


def test_what_the_drivers_library_prints_does_not_end_the_agent() -> None:
    supervisor = Supervisor(1.0, L, lambda text: None)
    said = 'warning: no such device\n{"kind": "hello"}\n7\n{"kind": "sam'
    process = subprocess.Popen(["printf", "%s", said], stdout=subprocess.PIPE)
    supervisor._process = process
    process.wait()
    supervisor.life = Life("ending")
    assert supervisor.messages(5) == [{"kind": "hello"}]
    supervisor.step(0)
    assert supervisor.pid is None
