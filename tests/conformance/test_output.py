"""What the user sees of a command while it runs."""

import pytest

from .engine import Stack


def test_each_line_is_shown_while_the_command_still_runs(stack: Stack) -> None:
    stack.program("""
        waits = "until [ -e go ]; do sleep 0.02; done"
        local.Command("c", create=f"echo under way; {waits}; echo finished")
    """)
    update = stack.start_up()
    update.wait_for("under way")
    assert "finished" not in update.text
    (stack.path / "go").touch()
    assert update.result().exit_code == 0


@pytest.mark.parametrize(
    ("logging", "shown"),
    [
        ("STDOUT", {"from stdout"}),
        ("STDERR", {"from stderr"}),
        ("STDOUT_AND_STDERR", {"from stdout", "from stderr"}),
        ("NONE", set()),
    ],
)
def test_logging_chooses_what_is_shown_but_not_what_is_kept(
    stack: Stack, logging: str, shown: set[str]
) -> None:
    stack.program(f"""
        local.Command(
            "c",
            # Put together by the shell, so that the command's own text is not a match.
            create="echo from std'out'; echo from std'err' >&2",
            logging=local.Logging.{logging},
        )
    """)
    text = stack.up().text
    assert {line for line in ("from stdout", "from stderr") if line in text} == shown
    outputs = stack.commands()[0]["outputs"]
    assert (outputs["stdout"], outputs["stderr"]) == ("from stdout", "from stderr")
