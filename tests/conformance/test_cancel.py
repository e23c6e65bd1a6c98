"""Ctrl-C: the command ends, nothing is left running, and the next update works."""

import os

import pytest

from .engine import Stack, wait_until

RUNS_FOR_EVER = 'echo $$ > pid; echo under way; [ "$MODE" = work ] || exec sleep 600'


def is_alive(pid: int) -> bool:
    """Tell whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_interrupted_create_leaves_no_process_no_lock_and_no_resource(stack: Stack) -> None:
    stack.program(f"""
        mode = os.environ.get("MODE", "hang")
        local.Command("c", create={RUNS_FOR_EVER!r}, environment={{"MODE": mode}})
    """)
    update = stack.start_up()
    update.wait_for("under way")
    update.interrupt()
    assert update.result(deadline_seconds=20).exit_code != 0
    pid = int((stack.path / "pid").read_text())
    wait_until(lambda: not is_alive(pid), f"the end of process {pid}")
    assert stack.locks() == []
    assert stack.commands() == []
    assert stack.up(MODE="work").changes["created"] == 1


@pytest.mark.standin_only("it kills the shell alone and waits for what the shell started")
def test_everything_that_a_command_started_may_clean_up_and_then_ends(stack: Stack) -> None:
    stack.program("""
        loop = "while :; do sleep 0.02; done"
        child = f"trap 'echo cleaned >> log; exit' TERM; echo under way; {loop}"
        stubborn = "trap '' TERM; echo $$ > stubborn; sleep 600"
        local.Command("c", create=f"sh -c '{stubborn}' & sh -c \\"{child}\\"; true")
    """)
    update = stack.start_up()
    update.wait_for("under way")
    wait_until((stack.path / "stubborn").exists, "the second child")
    update.interrupt()
    assert update.result(deadline_seconds=20).exit_code != 0
    assert stack.log() == ["cleaned"]
    pid = int((stack.path / "stubborn").read_text())
    wait_until(lambda: not is_alive(pid), f"the end of process {pid}")


def test_commands_end_when_the_engine_is_killed(stack: Stack) -> None:
    stack.program(f"""
        local.Command("c", create={RUNS_FOR_EVER!r})
    """)
    update = stack.start_up()
    update.wait_for("under way")
    update.kill()
    pid = int((stack.path / "pid").read_text())
    wait_until(lambda: not is_alive(pid), f"the end of process {pid}")
