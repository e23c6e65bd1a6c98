"""Changes to a server that is up, killed in the middle: the next command completes them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.marks import slow

from .conftest import SERVER, NewStack, Stack


@pytest.fixture(scope="module")
def stack(_baked: None, new_stack: NewStack) -> Stack:
    """A stack that is up, with a file on its data disk."""
    stack = new_stack()
    stack.declare(servers=[SERVER])
    stack.ferry("up")
    stack.ferry("ssh", "gpu-1", "--", "sudo touch /data/kept")
    return stack


def _host_key(stack: Stack) -> str:
    return str(stack.json("nodes")["servers"][0]["host_key"])


@pytest.mark.parametrize(
    ("sign", "number"),
    [
        ("creating the machine", signal.SIGKILL),
        *slow(("base: Install packages", signal.SIGINT)),
    ],
)
def test_a_killed_rebuild_is_completed_by_the_next_up(
    stack: Stack, sign: str, number: signal.Signals
) -> None:
    host_key = _host_key(stack)
    said = stack.kill_when("rebuild gpu-1", sign, number)
    stack.engine_ended()
    assert "Traceback" not in said
    # A kill in the middle of writing one of these would leave a state that nobody can read.
    state = Path(stack.environment["XDG_DATA_HOME"]) / "gpuferry/state"
    assert list(state.rglob("*.json"))
    assert not list(state.rglob("*.attrs"))
    assert stack.json("up")["ok"]
    assert len(stack.containers()) == 1
    assert _host_key(stack) == host_key
    stack.ferry("ssh", "gpu-1", "--", "test -e /data/kept")


@pytest.mark.parametrize(
    ("cpus", "sign", "number"),
    [
        ("2", "values changed", signal.SIGKILL),
        *slow(("1", "gpu-1-converge", signal.SIGTERM)),
    ],
)
def test_a_killed_resize_is_completed_by_the_next_up(
    stack: Stack, cpus: str, sign: str, number: signal.Signals
) -> None:
    said = stack.kill_when(f"resize gpu-1 --cpus {cpus}", sign, number)
    stack.engine_ended()
    assert "Traceback" not in said
    assert stack.json("up")["ok"]
    (server,) = stack.json("nodes")["servers"]
    assert server["cpus"] == cpus
    assert set(stack.json("up")["changes"]) == {"same"}


def test_of_two_ups_at_once_one_deploys_and_the_other_says_so(stack: Stack) -> None:
    stack.declare(servers=[{**SERVER, "labels": {"round": "two"}, "cpus": 1.5}])
    both = [stack.start("up"), stack.start("up")]
    said = [process.communicate(timeout=300)[0] for process in both]
    codes = [process.returncode for process in both]
    assert 0 in codes, said
    for code, text in zip(codes, said, strict=True):
        assert "Traceback" not in text
        assert code == 0 or (code == 2 and ("is in use: process" in text or "kill -INT" in text)), (
            text
        )
    assert len(stack.containers()) == 1
    assert set(stack.json("up")["changes"]) == {"same"}


@pytest.mark.parametrize("number", [*slow(signal.SIGINT), signal.SIGKILL])
def test_a_killed_down_is_completed_by_the_next_down(stack: Stack, number: signal.Signals) -> None:
    stack.ferry("up")
    said = stack.kill_when("down --yes", "gpu-1-machine", number)
    stack.engine_ended()
    assert "Traceback" not in said
    stack.ferry("down", "--yes")
    assert stack.containers() == []
