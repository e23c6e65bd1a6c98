"""Runs that are killed, and locks that they leave: the next run recovers, never doubles."""

from __future__ import annotations

import datetime
import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.marks import slow

from .conftest import SERVER, NewStack, Stack


@pytest.fixture(scope="module")
def stack(new_stack: NewStack) -> Stack:
    """A stack that is declared, not up."""
    stack = new_stack()
    # Bare: the roles' own steps are where it is killed.
    stack.declare(servers=[{**SERVER, "baked": False}])
    return stack


@pytest.mark.parametrize(
    ("sign", "number"),
    [
        ("creating the machine", signal.SIGKILL),
        *slow(("gpu-1-inventory", signal.SIGKILL)),
        ("base: Install packages", signal.SIGINT),
        *slow(("docker: ", signal.SIGTERM)),
        ("ssh_hardening: ", signal.SIGKILL),
    ],
)
def test_a_killed_up_never_makes_a_second_server(
    stack: Stack, sign: str, number: signal.Signals
) -> None:
    said = stack.kill_when("up", sign, number)
    stack.engine_ended()
    assert len(stack.containers()) <= 1, said
    assert "Traceback" not in said


def test_an_engine_killed_outright_leaves_no_worker(stack: Stack) -> None:
    with stack.start("up") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "converge" in line:
                break
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        process.stdout.read()
    assert process.returncode == 1
    stack.engine_ended()


def test_the_next_up_completes_what_was_interrupted(stack: Stack) -> None:
    answer = stack.json("up")
    assert answer["ok"]
    assert len(stack.containers()) == 1
    assert set(stack.json("up")["changes"]) == {"same"}
    stack.ferry("check")


def _lock(stack: Stack, pid: int, machine: str) -> Path:
    state = Path(stack.environment["XDG_DATA_HOME"]) / "gpuferry/state/.pulumi/locks"
    folder = state / "organization/gpuferry" / stack.name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "0a1b2c3d-0000-4000-8000-000000000000.json"
    now = datetime.datetime.now(datetime.UTC).isoformat()
    content = {"pid": pid, "username": "anna", "hostname": machine, "timestamp": now}
    path.write_text(json.dumps(content))
    return path


def test_a_lock_of_a_dead_run_is_explained_and_removed(stack: Stack) -> None:
    dead = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True)
    path = _lock(stack, int(dead.stdout), socket.gethostname())
    said = stack.ferry("up").stderr
    assert "removing the lock of a run that is over" in said
    assert not path.exists()


def test_a_lock_of_a_live_run_is_respected_and_its_holder_named(stack: Stack) -> None:
    path = _lock(stack, os.getpid(), socket.gethostname())
    for verb in ("up", "down"):
        said = stack.ferry(verb, *(["--yes"] if verb == "down" else []), code=2).stderr
        assert f"process {os.getpid()} of anna on {socket.gethostname()}" in said
        assert f"kill -INT {os.getpid()}" in said
    assert path.exists()
    path.unlink()


def test_a_lock_from_another_machine_needs_a_word(stack: Stack) -> None:
    path = _lock(stack, 1, "elsewhere")
    assert "--take-over-lock" in stack.ferry("up", code=2).stderr
    assert path.exists()
    assert "taking the stack over" in stack.ferry("up", "--take-over-lock").stderr


def test_down_works_when_the_server_is_dead(stack: Stack) -> None:
    (container,) = stack.containers()
    subprocess.run(["docker", "kill", container], check=True, capture_output=True)
    stack.ferry("down", "--yes", seconds=60)
    assert stack.containers() == []
