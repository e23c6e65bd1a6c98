"""The documentation says what is: commands exist, stack files are valid, nothing is stale."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import typer.main
import yaml

from gpuferry.cli.app import app
from gpuferry.paths import REPOSITORY
from gpuferry.spec import parse_spec
from gpuferry.spec.reference import markdown
from tests.bench.measures import MEASURES

PAGES = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")])


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", path.read_text())


COMMANDS = [
    (page.name, line)
    for page in PAGES
    for block in blocks(page, "sh")
    for line in block.splitlines()
    if line.startswith("./ferry")
]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_every_command_in_the_docs_exists_with_its_options(page: str, line: str) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group) or hasattr(group, "commands")
    words = shlex.split(line)[1:]
    command = group.commands[words.pop(0)]
    while hasattr(command, "commands"):
        # `ferry sim NAME COMMAND`: what the group itself takes stands before the subcommand.
        at = next(i for i, word in enumerate(words) if word in command.commands)
        command, words = command.commands[words[at]], words[at + 1 :]
    context = command.make_context(command.name, list(words), resilient_parsing=True)
    assert not context.args, f"{page}: {context.args} is left over"
    options = [w.split("=")[0] for w in words[: _end(words)] if w.startswith("--")]
    known = {name for parameter in command.params for name in parameter.opts}
    assert set(options) <= known | {"--help"}, page


def _end(words: list[str]) -> int:
    return words.index("--") if "--" in words else len(words)


SPECS = [
    (page.name, block)
    for page in PAGES
    for block in blocks(page, "yaml")
    if block.startswith("config:")
]


@pytest.mark.parametrize(("page", "block"), SPECS)
def test_every_stack_file_in_the_docs_is_valid(page: str, block: str) -> None:
    parse_spec(yaml.safe_load(block)["config"], page)


def test_the_docs_hold_commands_and_stack_files() -> None:
    assert len(COMMANDS) >= 15
    assert len(SPECS) >= 2


def test_the_reference_of_the_stack_file_is_not_stale() -> None:
    assert (REPOSITORY / "docs/stack-file.md").read_text() == markdown() + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 150


def test_every_command_has_an_example() -> None:
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        assert f"Example: ./ferry {name}" in (command.epilog or "") or name == "env", name


def test_the_help_of_bench_names_every_measure() -> None:
    text = click.Context(typer.main.get_command(app).commands["bench"]).get_help()  # type: ignore[attr-defined]
    assert ", ".join(MEASURES) in " ".join(text.replace("│", " ").split())
