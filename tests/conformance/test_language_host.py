"""How a program is run: its arguments, its configuration, its failures."""

import pytest

from .engine import Stack


def test_a_program_knows_its_project_its_configuration_and_its_neighbours(stack: Stack) -> None:
    (stack.path / "neighbour.py").write_text("NAME = 'imported'\n")
    stack.run("config", "set", "plain", "a value")
    stack.run("config", "set", "--secret", "hidden", "canary-77aa")
    stack.program("""
        import neighbour
        config = pulumi.Config()
        pulumi.export("facts", [
            pulumi.get_project(), pulumi.get_stack(), pulumi.get_organization(),
            config.require("plain"), neighbour.NAME, os.path.basename(os.getcwd()),
        ])
        pulumi.export("hidden", config.require_secret("hidden"))
        print("preview" if pulumi.runtime.is_dry_run() else "update", "run")
    """)
    assert "preview run" in stack.preview().text
    result = stack.up()
    assert "update run" in result.text
    assert "canary-77aa" not in result.text
    assert stack.files_with("canary-77aa") == []
    outputs = stack.outputs()
    facts = ["conformance", "test", "organization", "a value", "imported", "project"]
    assert outputs["facts"] == facts
    assert outputs["hidden"] == "canary-77aa"


def test_an_exception_is_shown_once_with_the_users_own_lines_only(stack: Stack) -> None:
    stack.program("""
        def deep():
            raise ValueError("the reason")
        deep()
    """)
    result = stack.try_up()
    assert result.exit_code != 0
    diagnostics = result.text.partition("Diagnostics:")[2]
    assert diagnostics.count("ValueError: the reason") == 1
    assert "in deep" in diagnostics
    assert "runpy" not in diagnostics


def test_an_error_for_the_user_has_no_traceback(stack: Stack) -> None:
    stack.program("""
        raise pulumi.RunError("set gpus to a number")
    """)
    result = stack.try_up()
    assert result.exit_code != 0
    assert result.text.partition("Diagnostics:")[2].count("set gpus to a number") == 1
    assert "Traceback" not in result.text


def test_an_exit_code_of_the_program_is_reported(stack: Stack) -> None:
    stack.program("""
        print("last words")
        raise SystemExit(3)
    """)
    result = stack.try_up()
    assert result.exit_code != 0
    assert "last words" in result.text
    assert "exit code: 3" in result.text


def test_a_program_error_does_not_lose_what_was_created(stack: Stack) -> None:
    stack.program("""
        made = local.Command("c", create="echo create >> log")
        def fail(_):
            raise ValueError("afterwards")
        made.stdout.apply(fail)
    """)
    result = stack.try_up()
    assert result.exit_code != 0
    assert "ValueError: afterwards" in result.text
    assert len(stack.commands()) == 1


@pytest.mark.standin_only("it makes the environment, or has more toolchains")
@pytest.mark.parametrize(
    ("option", "refusal"),
    [
        ("virtualenv: missing", "there is no"),
        ("toolchain: poetry", "toolchain: poetry is not supported"),
        ("typechecker: mypy", "typechecker is not supported"),
    ],
)
def test_a_runtime_option_that_cannot_be_met_is_refused(
    stack: Stack, option: str, refusal: str
) -> None:
    project = f"name: conformance\nruntime: {{name: python, options: {{{option}}}}}\n"
    (stack.path / "Pulumi.yaml").write_text(project)
    stack.program("")
    result = stack.try_up()
    assert result.exit_code != 0
    assert refusal in result.text
    assert "Traceback" not in result.text
