"""What a failure leaves behind, and what the user is told."""

import pytest

from .engine import Stack

FAILS_ON_REQUEST = """
    script = 'echo "did $MODE"; echo why >&2; [ "$MODE" != fail ]'
    mode = os.environ.get("MODE", "work")
    local.Command("c", create=script, environment={"MODE": mode})
"""


def test_a_failed_create_is_reported_and_not_recorded(stack: Stack) -> None:
    stack.program(FAILS_ON_REQUEST)
    result = stack.try_up(MODE="fail")
    assert result.exit_code != 0
    assert "exit status 1" in result.text
    assert "why" in result.text
    assert stack.commands() == []
    assert stack.up().changes["created"] == 1


def test_a_failed_update_keeps_the_old_state_and_is_tried_again(stack: Stack) -> None:
    stack.program(FAILS_ON_REQUEST)
    stack.up()
    before = stack.commands()
    assert stack.try_up(MODE="fail").exit_code != 0
    (command,) = stack.commands()
    assert command["outputs"] == before[0]["outputs"]
    assert command["inputs"] == before[0]["inputs"]
    assert stack.up(MODE="other").changes == {"updated": 1}


def test_a_failed_delete_keeps_the_resource(stack: Stack) -> None:
    stack.program("""
        local.Command("c", create="true", delete="[ -e gone ]")
    """)
    stack.up()
    assert stack.run("destroy", "--yes", "--skip-preview").exit_code != 0
    assert len(stack.commands()) == 1
    (stack.path / "gone").touch()
    stack.destroy()
    assert stack.commands() == []


def test_a_command_that_cannot_be_started_fails_with_the_reason(stack: Stack) -> None:
    stack.program("""
        local.Command("c", create="true", dir="nowhere")
    """)
    result = stack.try_up()
    assert result.exit_code != 0
    assert "nowhere" in result.text
    assert stack.commands() == []


def test_a_timeout_ends_the_command(stack: Stack) -> None:
    stack.program("""
        options = pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create="1s"))
        local.Command("c", create="exec sleep 600", opts=options)
    """)
    result = stack.start_up().result(deadline_seconds=20)
    assert result.exit_code != 0
    assert stack.commands() == []


def test_an_unknown_input_is_refused_by_name_before_anything_runs(stack: Stack) -> None:
    stack.program("""
        pulumi.CustomResource(os.environ["TYPE"], "c", {
            "create": "echo create >> log",
            "crate": "a typing mistake",
        })
    """)
    for kind in ("command:local:Command", "command:remote:Command"):
        result = stack.try_up(TYPE=kind)
        assert result.exit_code != 0
        assert "crate" in result.text.replace("create", "")
    assert stack.log() == []


@pytest.mark.standin_only("it collects files, which no part of this project uses")
def test_an_unsupported_input_is_refused_by_name(stack: Stack) -> None:
    stack.program("""
        local.Command("c", create="true", asset_paths=["*"])
    """)
    result = stack.try_up()
    assert result.exit_code != 0
    assert "assetPaths is not supported by this stand-in" in result.text
