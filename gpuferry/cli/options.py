"""Options that several commands share."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import Annotated

import typer

from gpuferry.engine.project import DEFAULT_STACK, Project
from gpuferry.paths import REPOSITORY

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

STACK = DEFAULT_STACK
DIRECTORY = REPOSITORY

_named: ContextVar[Project | None] = ContextVar("project", default=None)


def project(directory: Path, stack: str) -> Project:
    """The project that the options name."""
    named = Project(directory.resolve(), stack)
    _named.set(named)
    return named


def told(error: Exception) -> str:
    """An error's text; the commands in it name the stack that was meant."""
    named = _named.get()
    return named.on_stack(str(error)) if named else str(error)
