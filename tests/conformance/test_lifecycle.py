"""What a local command does over the life of its resource."""

from .engine import Stack

LOGGING_COMMAND = """
    local.Command(
        "c",
        create="echo create >> log; echo created",
        delete="echo delete $PULUMI_COMMAND_STDOUT >> log",
        triggers=[os.environ.get("TRIGGER", "1")],
        environment={"VALUE": os.environ.get("VALUE", "1")},
    )
"""


def test_a_command_runs_once_and_is_deleted_with_its_last_output(stack: Stack) -> None:
    stack.program(LOGGING_COMMAND)
    assert stack.up().changes == {"created": 2}
    assert stack.up().changes == {}
    assert stack.log() == ["create"]
    assert stack.commands()[0]["outputs"]["stdout"] == "created"
    stack.destroy()
    assert stack.log() == ["create", "delete created"]


def test_a_changed_input_runs_create_again_where_there_is_no_update(stack: Stack) -> None:
    stack.program(LOGGING_COMMAND)
    stack.up()
    assert stack.up(VALUE="2").changes == {"updated": 1}
    assert stack.log() == ["create", "create"]


def test_a_changed_input_runs_update_with_the_previous_output_in_its_environment(
    stack: Stack,
) -> None:
    stack.program("""
        value = os.environ.get("VALUE", "1")
        script = "echo update $PULUMI_COMMAND_STDOUT $PULUMI_COMMAND_STDERR >> log; echo second"
        local.Command("with", create="echo out; echo err >&2", update=script, stdin=value)
        local.Command("without", create="echo out", update=script + " > without",
                      stdin=value, add_previous_output_in_env=False,
                      opts=pulumi.ResourceOptions(depends_on=[]))
    """)
    stack.up()
    assert stack.up(VALUE="2").changes == {"updated": 2}
    assert sorted(stack.log()) == ["update", "update out err"]


def test_a_changed_trigger_replaces_and_deletes_the_old_one_last(stack: Stack) -> None:
    stack.program(LOGGING_COMMAND)
    stack.up()
    assert stack.up(TRIGGER="2").changes == {"replaced": 1}
    assert stack.log() == ["create", "create", "delete created"]


def test_a_preview_touches_nothing(stack: Stack) -> None:
    stack.program(LOGGING_COMMAND)
    stack.preview()
    assert stack.log() == []
    stack.up()
    before = stack.commands()
    stack.preview(VALUE="2")
    stack.preview(TRIGGER="2")
    assert stack.log() == ["create"]
    assert stack.commands() == before


def test_a_refresh_keeps_the_outputs_and_the_next_update_changes_nothing(stack: Stack) -> None:
    stack.program(LOGGING_COMMAND)
    stack.up()
    before = stack.commands()[0]["outputs"]
    stack.refresh()
    assert stack.commands()[0]["outputs"] == before
    assert stack.up().changes == {}
    assert stack.log() == ["create"]


def test_the_run_function_runs_on_every_update(stack: Stack) -> None:
    stack.program("""
        result = local.run(command="echo run >> log; cat", stdin="given")
        pulumi.export("stdout", result.stdout)
    """)
    stack.up()
    stack.up()
    assert stack.log() == ["run", "run"]
    assert stack.outputs()["stdout"] == "given"
