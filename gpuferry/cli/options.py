"""Options that several commands share."""

from __future__ import annotations

import json
import os
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated

import typer

from gpuferry.engine.project import DEFAULT_STACK, Project
from gpuferry.errors import SpecError
from gpuferry.paths import POLICY_CONFIG, REPOSITORY
from policy import rulings

Stack = Annotated[
    str, typer.Option("--stack", "-s", help="Stack to work on.", envvar="GPUFERRY_STACK")
]
Directory = Annotated[
    Path,
    typer.Option(
        "--directory",
        "-C",
        help="Folder with Pulumi.yaml and the stack files; default: this repository.",
        envvar="GPUFERRY_DIRECTORY",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Answer as JSON on stdout.")]
Names = Annotated[list[str] | None, typer.Argument(help="Servers; all when none is named.")]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over-lock",
        help="Take the lock of a run on another machine; only if that run is over.",
    ),
]

DiscardRetained = Annotated[
    bool,
    typer.Option(
        "--discard-retained-objects", help="Also delete objects whose retention has not ended."
    ),
]

PolicyConfig = Annotated[
    Path | None,
    typer.Option(
        "--policy-config",
        help="Caps of the team (JSON): the policy pack judges what is about to be made.",
        envvar=POLICY_CONFIG,
        show_default=False,
    ),
]

STACK = DEFAULT_STACK
DIRECTORY = REPOSITORY

_named: ContextVar[Project | None] = ContextVar("project", default=None)


def project(directory: Path, stack: str) -> Project:
    """The project that the options name."""
    named = Project(directory.resolve(), stack)
    _named.set(named)
    return named


def set_policy_config(file: Path | None) -> None:
    """Hand the pack's configuration on to the engine, whichever command starts it.

    Raises:
        SpecError: there is no such file.
    """
    if file is None:
        return
    if not file.is_file():
        raise SpecError(f"--policy-config: there is no file {file}; see docs/security.md.")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SpecError(f"--policy-config: {file} is no JSON: {error}.") from None
    if not isinstance(config, dict):
        raise SpecError(f"--policy-config: {file} holds no JSON object of rules.")
    for name in rulings.unknown_names(config):
        known = ", ".join(rule for rule, *_ in rulings.RULES)
        raise SpecError(
            f"--policy-config: {file}: {name!r} is no rule; accepted: {known}, "
            f"{rulings.EVERY_RULE_EVALUATED}."
        )
    os.environ[POLICY_CONFIG] = str(file.resolve())


def told(error: Exception) -> str:
    """An error's text; the commands in it name the stack that was meant."""
    named = _named.get()
    return named.on_stack(str(error)) if named else str(error)
