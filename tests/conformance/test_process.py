"""What a local command finds around it, and what becomes of what it prints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .engine import Stack

PROGRAM = """
    os.makedirs("elsewhere", exist_ok=True)
    commands = {
        "stdin": local.Command("stdin", create="cat", stdin="line 1\\nline 2"),
        "no_stdin": local.Command("no_stdin", create="cat; echo end"),
        "environment": local.Command(
            "environment", create="echo $GIVEN $INHERITED", environment={"GIVEN": "a b"}
        ),
        "dir": local.Command("dir", create="pwd", dir="elsewhere"),
        "no_dir": local.Command("no_dir", create="pwd"),
        "interpreter": local.Command(
            "interpreter", create="print(1 + 1)", interpreter=["python3", "-c"]
        ),
        "lines": local.Command("lines", create="printf 'one\\n\\nthree\\n\\n'"),
        "unfinished": local.Command("unfinished", create="printf 'no newline'"),
        "unicode": local.Command("unicode", create="printf 'café'"),
        "nothing": local.Command("nothing", delete="true"),
        "many": local.Command("many", create="seq 100000", logging="none"),
    }
    for name, command in commands.items():
        pulumi.export(name, command.stdout)
    streams = local.Command("streams", create="echo out; echo err >&2")
    pulumi.export("streams", pulumi.Output.all(streams.stdout, streams.stderr))
"""


@pytest.fixture(scope="module")
def stack(new_stack: Callable[[], Stack]) -> Stack:
    """A stack with one command for each question."""
    stack = new_stack()
    stack.program(PROGRAM)
    stack.up(INHERITED="c")
    return stack


@pytest.fixture(scope="module")
def outputs(stack: Stack) -> dict[str, Any]:
    """What each command printed."""
    return stack.outputs()


def test_stdin_is_what_was_given_and_otherwise_empty(outputs: dict[str, Any]) -> None:
    assert outputs["stdin"] == "line 1\nline 2"
    assert outputs["no_stdin"] == "end"


def test_the_environment_is_that_of_pulumi_plus_what_was_given(outputs: dict[str, Any]) -> None:
    assert outputs["environment"] == "a b c"


def test_a_command_runs_in_the_project_unless_told_otherwise(
    outputs: dict[str, Any], stack: Stack
) -> None:
    assert Path(outputs["no_dir"]) == stack.path
    assert Path(outputs["dir"]) == stack.path / "elsewhere"


def test_the_interpreter_gets_the_command_as_last_argument(outputs: dict[str, Any]) -> None:
    assert outputs["interpreter"] == "2"


def test_outputs_keep_every_newline_but_the_last(outputs: dict[str, Any]) -> None:
    assert outputs["lines"] == "one\n\nthree\n"
    assert outputs["unfinished"] == "no newline"


def test_outputs_are_text_of_any_length(outputs: dict[str, Any]) -> None:
    assert outputs["unicode"] == "café"
    assert len(outputs["many"].splitlines()) == 100000


def test_a_resource_without_create_has_empty_outputs(outputs: dict[str, Any]) -> None:
    assert outputs["nothing"] == ""


def test_stdout_and_stderr_are_kept_apart(outputs: dict[str, Any]) -> None:
    assert outputs["streams"] == ["out", "err"]


def test_a_second_update_changes_nothing(stack: Stack) -> None:
    assert stack.up(INHERITED="d").changes == {}
