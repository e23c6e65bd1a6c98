"""Commands and files on another machine: only on the one whose host key was given."""

from collections.abc import Iterator

import pytest

from .engine import Stack
from .ssh_server import SSHServer, new_key, public_text

CONNECTION = """
connection = remote.ConnectionArgs(
    host="127.0.0.1",
    port=int(os.environ["SSH_PORT"]),
    user="someone",
    private_key=os.environ["SSH_KEY"],
    host_key=os.environ["SSH_HOST_KEY"],
    dial_error_limit=int(os.environ.get("LIMIT", "2")),
)
"""

COMMAND = (
    CONNECTION
    + """
remote.Command(
    "c",
    connection=connection,
    create=os.environ.get("CREATE", "echo create >> $PWD/log; cat; echo problem >&2"),
    delete="echo delete $PULUMI_COMMAND_STDOUT >> $PWD/log",
    stdin="given",
)
"""
)

COPY = (
    CONNECTION
    + """
copies = {
    "file": pulumi.FileAsset("note.txt"),
    "new/parents/text": pulumi.StringAsset(os.environ["CONTENT"]),
    "tree": pulumi.FileArchive("tree"),
}
for number, (name, source) in enumerate(copies.items()):
    remote.CopyToRemote(
        f"copy-{number}",
        connection=connection,
        source=source,
        remote_path=os.path.join(os.environ["TARGET"], name),
    )
"""
)


@pytest.fixture
def server() -> Iterator[SSHServer]:
    """A server that does not listen yet."""
    server = SSHServer()
    yield server
    server.close()


@pytest.fixture
def environment(server: SSHServer, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the programs need; commands run in the folder of the project."""
    monkeypatch.chdir(stack.path)
    monkeypatch.setenv("PWD", str(stack.path))
    return {**server.environment(), "TARGET": str(stack.path / "target")}


def test_a_command_runs_on_the_server_over_its_whole_life(
    stack: Stack, server: SSHServer, environment: dict[str, str]
) -> None:
    server.start()
    stack.program(COMMAND)
    stack.preview(**environment)
    assert server.logins == 0
    stack.up(**environment)
    outputs = stack.commands()[0]["outputs"]
    assert (outputs["stdout"], outputs["stderr"]) == ("given", "problem")
    assert stack.up(**environment).changes == {}
    stack.destroy()
    assert stack.log() == ["create", "delete given"]


def test_a_failed_command_is_not_recorded(
    stack: Stack, server: SSHServer, environment: dict[str, str]
) -> None:
    server.start()
    stack.program(COMMAND)
    result = stack.try_up(CREATE="echo why >&2; exit 3", **environment)
    assert result.exit_code != 0
    assert "why" in result.text
    assert stack.commands() == []


def test_a_server_with_another_host_key_is_refused_before_login(
    stack: Stack, server: SSHServer, environment: dict[str, str]
) -> None:
    server.start()
    stack.program(COMMAND)
    other = public_text(new_key()[1])
    result = stack.try_up(**{**environment, "SSH_HOST_KEY": other})
    assert result.exit_code != 0
    assert "host key" in result.text
    assert server.logins == 0
    assert stack.log() == []
    assert stack.commands() == []


@pytest.mark.standin_only("it then trusts every server")
@pytest.mark.parametrize("kind", ["Command", "CopyToRemote"])
def test_a_connection_without_a_host_key_is_refused(stack: Stack, kind: str) -> None:
    stack.program(f"""
        given = (
            {{"create": "true"}}
            if "{kind}" == "Command"
            else {{"source": pulumi.StringAsset("x"), "remote_path": "/tmp/x"}}
        )
        remote.{kind}("c", connection=remote.ConnectionArgs(host="127.0.0.1"), **given)
    """)
    result = stack.run("preview")
    assert result.exit_code != 0
    assert "connection.hostKey is missing" in result.text


def test_a_server_that_comes_up_late_is_waited_for(
    stack: Stack, server: SSHServer, environment: dict[str, str]
) -> None:
    stack.program(COMMAND)
    update = stack.start_up(LIMIT="60", **environment)
    update.wait_for("failed: retrying")
    server.start()
    assert update.result().exit_code == 0
    assert stack.log() == ["create"]


def test_a_server_that_never_comes_is_given_up(stack: Stack, environment: dict[str, str]) -> None:
    stack.program(COMMAND)
    result = stack.start_up(**environment).result(deadline_seconds=20)
    assert result.exit_code != 0
    assert stack.commands() == []


def test_an_interrupt_ends_the_wait_for_a_server(stack: Stack, environment: dict[str, str]) -> None:
    stack.program(COMMAND)
    update = stack.start_up(LIMIT="-1", **environment)
    update.wait_for("failed: retrying")
    update.interrupt()
    assert update.result(deadline_seconds=20).exit_code != 0
    assert stack.locks() == []


def test_files_texts_and_trees_are_copied_and_copied_again_when_they_change(
    stack: Stack, server: SSHServer, environment: dict[str, str]
) -> None:
    target = stack.path / "target"
    target.mkdir()
    (stack.path / "tree" / "branch").mkdir(parents=True)
    leaf = stack.path / "tree" / "branch" / "leaf"
    note = stack.path / "note.txt"
    leaf.write_text("first")
    note.write_text("first")
    server.start()
    stack.program(COPY)

    stack.preview(CONTENT="first", **environment)
    assert list(target.iterdir()) == []
    for content in ("first", "second"):
        leaf.write_text(content)
        note.write_text(content)
        stack.up(CONTENT=content, **environment)
        copies = ("file", "new/parents/text", "tree/tree/branch/leaf")
        assert [(target / copy).read_text() for copy in copies] == [content] * 3
    assert stack.up(CONTENT="second", **environment).changes == {}
    stack.destroy()
    assert (target / "file").read_text() == "second"


def test_a_server_that_does_not_exist_yet_can_be_previewed(stack: Stack) -> None:
    stack.program("""
        machine = local.Command("machine", create="echo address")
        connection = remote.ConnectionArgs(host=machine.stdout, host_key=machine.stdout)
        remote.Command("c", connection=connection, create=machine.stdout)
        remote.CopyToRemote(
            "d", connection=connection, source=pulumi.StringAsset("x"), remote_path=machine.stdout
        )
    """)
    assert "4 to create" in stack.preview().text
