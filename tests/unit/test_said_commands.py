"""Whatever tells a person what to run next names a command that can be typed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
import typer.main

from gpuferry.cli.app import app
from gpuferry.paths import REPOSITORY

FOLDERS = ("gpuferry", "checks", "infra")
# "Run ./ferry as root", and the comment that a written stack file begins with.
NO_ADVICE = ("as root", "audit apply")
_SAID = re.compile(r"\./ferry ([a-z][\w-]*(?: [\w{}<>./=-]+)*)")


def texts(tree: ast.AST) -> Iterator[str]:
    """String constants, values in them as VALUE; no docstrings, which nobody is shown."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
             for part in node.values}  # fmt: skip
    shown = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in inner | shown:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else "VALUE" for p in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


SAID = sorted(
    {
        (str(path.relative_to(REPOSITORY)), found)
        for folder in FOLDERS
        for path in (REPOSITORY / folder).rglob("*.py")
        for text in texts(ast.parse(path.read_text()))
        for found in _SAID.findall(text)
        if found not in NO_ADVICE
    }
)


@pytest.mark.parametrize(("path", "said"), SAID)
def test_a_command_that_is_named_exists_and_has_its_arguments(path: str, said: str) -> None:
    # An option that may be empty follows its command without a blank.
    command, words = typer.main.get_command(app), re.sub(r"(?<=[a-z])VALUE", "", said).split()
    while hasattr(command, "commands") and words and words[0] != "--help":
        at = next((i for i, word in enumerate(words) if word in command.commands), None)
        assert at is not None, f"{path}: ./ferry {said}: no such command"
        command, words = command.commands[words[at]], words[at + 1 :]
    values = [word for word in words if not word.startswith("-")]
    needed = [p.name for p in command.params if p.param_type_name == "argument" and p.required]
    enough = len(values) >= len(needed) or "--help" in words
    assert enough, f"{path}: ./ferry {said}: lacks {', '.join(needed)}"


def test_many_are_named() -> None:
    assert len(SAID) > 40


@pytest.mark.parametrize("name", ["up", "resize", "rebuild", "down"])
def test_what_may_ask_before_data_goes_can_be_told_not_to(name: str) -> None:
    group = typer.main.get_command(app)
    assert hasattr(group, "commands")
    assert any("--yes" in parameter.opts for parameter in group.commands[name].params)
