"""Secrets: never in clear in the state, its history, Pulumi's home or anything printed."""

import pytest

from .engine import Stack

CANARY = "canary-5e1f"


def test_secret_inputs_and_outputs_stay_secret_over_the_whole_life(stack: Stack) -> None:
    stack.program("""
        secret = pulumi.Output.secret(os.environ["CANARY"])
        command = local.Command(
            "c",
            create="cat; echo $TOKEN; echo $TOKEN >&2",
            stdin=secret,
            environment={"TOKEN": secret, "ROUND": os.environ["ROUND"]},
            logging=local.Logging.NONE,
            opts=pulumi.ResourceOptions(additional_secret_outputs=["stdout", "stderr"]),
        )
        pulumi.export("stdout", command.stdout)
    """)
    texts = [
        stack.up(CANARY=CANARY, ROUND="1").text,
        stack.preview(CANARY=CANARY, ROUND="2").text,
        stack.up(CANARY=CANARY, ROUND="2").text,
        stack.refresh().text,
    ]
    assert stack.outputs()["stdout"] == CANARY * 2
    texts.append(stack.run("stack", "export").text)
    assert stack.files_with(CANARY) == []
    texts.append(stack.destroy().text)
    assert stack.files_with(CANARY) == []
    assert [text for text in texts if CANARY in text] == []


@pytest.mark.standin_only("its errors repeat the command and all its output")
def test_an_error_does_not_repeat_a_secret(stack: Stack) -> None:
    stack.program("""
        secret = pulumi.Output.secret(os.environ["CANARY"])
        local.Command(
            "stdin", create="cat; echo plain; false", stdin=secret.apply(lambda s: f"a {s}\\nb"),
            logging=local.Logging.STDERR,
        )
        local.Command(
            "command", create=secret.apply(lambda s: f"echo {s}; false"),
            logging=local.Logging.STDERR,
        )
    """)
    result = stack.try_up(CANARY=CANARY)
    assert result.exit_code != 0
    assert result.text.count("exit status 1") >= 2
    assert CANARY not in result.text


@pytest.mark.standin_only("an unknown field makes the engine print the whole connection")
def test_a_refused_connection_is_not_printed(stack: Stack) -> None:
    stack.program("""
        pulumi.CustomResource("command:remote:Command", "c", {
            "create": "true",
            "connection": {"host": "192.0.2.1", "password": os.environ["CANARY"], "pasword": "x"},
        })
    """)
    result = stack.try_up(CANARY=CANARY)
    assert result.exit_code != 0
    assert "connection.pasword is not an input" in result.text
    assert CANARY not in result.text


@pytest.mark.standin_only("it hands the decrypted configuration over in the environment")
def test_configuration_is_not_in_the_programs_environment(stack: Stack) -> None:
    stack.run("config", "set", "--secret", "hidden", CANARY)
    stack.program("""
        own = open("/proc/self/environ").read()
        value = pulumi.Config().require("hidden")
        pulumi.export("length", len(value))
        pulumi.export("seen", value in own)
    """)
    stack.up()
    outputs = stack.outputs()
    assert (outputs["length"], outputs["seen"]) == (len(CANARY), False)
