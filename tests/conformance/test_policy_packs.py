"""Policy packs written in Python: when they are asked, what a violation stops, how they end."""

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from .engine import Running, Stack, wait_until

HEADER = """\
from pulumi_policy import *

def policy(name, rule, level="mandatory", schema=None):
    return ResourceValidationPolicy(
        name, f"about {name}", rule, EnforcementLevel(level),
        PolicyConfigSchema(schema) if schema else None)
"""
NO_FALSE = """
    def rule(args, report):
        if args.props.get("create") == "false":
            report(f"{args.name} is false")
    PolicyPack("pack", [policy("no-false", rule, LEVEL)])
"""
PROGRAM = """
    first = local.Command("first", create="false")
    local.Command("second", create="echo made >> log", stdin=first.stdout)
"""


@pytest.fixture
def pack(stack: Stack) -> Callable[[str], Path]:
    """Return a function that writes a pack, which uses this Python as its own environment."""

    def write(text: str) -> Path:
        folder = stack.root / "pack"
        folder.mkdir(exist_ok=True)
        options = f"{{virtualenv: {sys.prefix}}}"
        (folder / "PulumiPolicy.yaml").write_text(
            f"runtime: {{name: python, options: {options}}}\nversion: 1.2.3\n"
        )
        (folder / "__main__.py").write_text(HEADER + textwrap.dedent(text))
        return folder

    return write


def _up(stack: Stack, pack: Path, config: Path | None = None) -> Running:
    options = ["--policy-pack-config", str(config)] if config else []
    return stack.start("up", "--yes", "--skip-preview", "--policy-pack", str(pack), *options)


def test_a_mandatory_violation_stops_before_anything_is_made(
    stack: Stack, pack: Callable[[str], Path]
) -> None:
    stack.program(PROGRAM)
    result = _up(stack, pack(NO_FALSE.replace("LEVEL", "'mandatory'"))).result()
    assert result.exit_code != 0
    assert "[mandatory]  no-false" in result.text
    assert "first is false" in result.text
    assert stack.commands() == []
    assert stack.log() == []


def test_an_advisory_violation_is_told_and_stops_nothing(
    stack: Stack, pack: Callable[[str], Path]
) -> None:
    stack.program("""local.Command("c", create="false")""")
    result = stack.run(
        "preview", "--policy-pack", str(pack(NO_FALSE.replace("LEVEL", "'advisory'")))
    )
    assert result.exit_code == 0
    assert "[advisory]  no-false" in result.text
    assert "c is false" in result.text


def test_a_pack_gets_its_configuration_and_may_be_made_softer_by_it(
    stack: Stack, pack: Callable[[str], Path]
) -> None:
    folder = pack("""
        def rule(args, report):
            if args.resource_type.startswith("command:"):
                report(f"cap {args.get_config()['cap']:g}")
        PolicyPack("pack", [policy("cap", rule, schema={"cap": {"type": "integer"}})])
    """)
    stack.program("""local.Command("c", create="echo made >> log")""")
    config = stack.root / "config.json"
    config.write_text('{"cap": {"cap": 7}}')
    result = _up(stack, folder, config).result()
    assert (result.exit_code != 0, stack.log()) == (True, [])
    assert "cap 7" in result.text
    config.write_text('{"cap": {"cap": 8, "enforcementLevel": "advisory"}}')
    result = _up(stack, folder, config).result()
    assert (result.exit_code, stack.log()) == (0, ["made"])
    assert "cap 8" in result.text
    config.write_text('{"cap": {"cap": "many"}}')
    result = _up(stack, folder, config).result()
    assert result.exit_code != 0
    assert "Expected: integer" in result.text


def test_a_rule_that_needs_what_only_an_update_knows_says_so_in_a_preview(
    stack: Stack, pack: Callable[[str], Path]
) -> None:
    stack.program("""
        first = local.Command("first", create="echo false")
        local.Command("second", create=first.stdout)
    """)
    folder = pack(NO_FALSE.replace("LEVEL", "'mandatory'"))
    result = stack.run("preview", "--policy-pack", str(folder))
    assert result.exit_code == 0
    assert "can't run policy 'no-false'" in result.text
    result = _up(stack, folder).result()
    assert result.exit_code != 0
    assert "second is false" in result.text
    assert [command["urn"].rsplit("::", 1)[1] for command in stack.commands()] == ["first"]


def test_components_are_judged_and_the_stack_as_a_whole_with_its_options(
    stack: Stack, pack: Callable[[str], Path]
) -> None:
    folder = pack("""
        def rule(args, report):
            told = [(r.resource_type, r.name, r.opts.protect) for r in args.resources]
            report(repr(sorted(told)[:2]))
        def component(args, report):
            if args.resource_type == "test:index:Whole":
                report(f"the words are {args.props['words']}")
        PolicyPack("pack", [
            policy("component", component, "advisory"),
            StackValidationPolicy("whole", "about whole", rule, EnforcementLevel.ADVISORY)])
    """)
    stack.program("""
        whole = pulumi.ComponentResource("test:index:Whole", "whole", {"words": "plain"})
        kept = pulumi.ResourceOptions(protect=True, parent=whole)
        local.Command("c", create="true", opts=kept)
    """)
    result = stack.run("preview", "--policy-pack", str(folder))
    assert result.exit_code == 0
    assert "('command:local:Command', 'c', True)" in result.text
    assert "the words are plain" in result.text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nowhere", "No module named 'nowhere'"),
        ("PolicyPack('pack', [])", "Missing policies argument"),
        ("raise SystemExit(3)", "failed to start"),
    ],
)
def test_a_pack_that_does_not_start_fails_the_run_with_its_own_words(
    stack: Stack, pack: Callable[[str], Path], text: str, reason: str
) -> None:
    stack.program(PROGRAM)
    result = _up(stack, pack(text)).result()
    assert result.exit_code != 0
    assert reason in result.text
    assert stack.commands() == []


def test_a_secret_reaches_a_pack_by_no_argument_and_no_environment(
    stack: Stack, pack: Callable[[str], Path]
) -> None:
    stack.run("config", "set", "--secret", "hidden", "canary-91cd")
    stack.program("""
        hidden = pulumi.Config().require_secret("hidden")
        local.Command("c", create="cat >/dev/null", stdin=hidden)
    """)
    folder = pack("""
        import pathlib
        own = pathlib.Path("/proc/self")
        def rule(args, report):
            if args.resource_type.startswith("command:"):
                open_to_read = (own / "environ").read_bytes() + (own / "cmdline").read_bytes()
                report(f"saw {args.props['stdin'][:6]}, open to read: {b'canary' in open_to_read}")
        PolicyPack("pack", [policy("secrets", rule, "advisory")])
    """)
    result = _up(stack, folder).result()
    assert result.exit_code == 0
    assert "saw canary, open to read: False" in result.text
    assert "canary-91cd" not in result.text
    assert stack.files_with("canary-91cd") == []


@pytest.mark.parametrize("how", ["end", "interrupt", "kill"])
def test_a_pack_ends_with_the_engine(stack: Stack, pack: Callable[[str], Path], how: str) -> None:
    folder = pack(NO_FALSE.replace("LEVEL", "'advisory'"))
    stack.program("""local.Command("c", create=f"sleep {os.environ['SECONDS']}")""")
    options = ("--yes", "--skip-preview", "--policy-pack", str(folder))
    running = stack.start("up", *options, SECONDS="0" if how == "end" else "30")
    wait_until(lambda: how == "end" or bool(_processes(folder)), "the pack to run")
    if how == "interrupt":
        running.wait_for("creating")
        running.interrupt()
        running.result()
    elif how == "kill":
        running.kill()
    else:
        running.result()
    wait_until(lambda: not _processes(folder), f"{_processes(folder)} to end")


def _processes(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "pulumi.policy" in words and str(folder) in words:
            found.append(path.parent.name)
    return found
