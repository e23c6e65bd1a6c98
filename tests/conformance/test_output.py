"""What the user sees of a command while it runs."""

import re

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


def test_logging_chooses_what_is_shown_but_not_what_is_kept(stack: Stack) -> None:
    stack.program("""
        for name in ("STDOUT", "STDERR", "STDOUT_AND_STDERR", "NONE"):
            local.Command(
                name,
                # Put together by the shell, so that the command's own text is not a match.
                create=f"echo {name} on std'out'; echo {name} on std'err' >&2",
                logging=getattr(local.Logging, name),
            )
    """)
    text = stack.up().text
    shown = set(re.findall(r"[A-Z_]+ on std(?:out|err)", text))
    assert shown == {
        "STDOUT on stdout",
        "STDERR on stderr",
        "STDOUT_AND_STDERR on stdout",
        "STDOUT_AND_STDERR on stderr",
    }
    kept = [(item["outputs"]["stdout"], item["outputs"]["stderr"]) for item in stack.commands()]
    assert len(kept) == 4
    assert all(out.endswith("on stdout") and err.endswith("on stderr") for out, err in kept)
