"""ferry converge"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Names, Stack, project


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry converge gpu-1 --check")(converge)


def converge(
    names: Names = None,
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    full: Annotated[
        bool,
        typer.Option("--full", help="Play every role, also where nothing has changed."),
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Change nothing; exit 3 when something would change."),
    ] = False,
    disturb: Annotated[
        bool,
        typer.Option("--disturb", help="Change what has to be changed also while GPUs are in use."),
    ] = False,
    json: Json = False,
) -> None:
    """Bring servers back to what the last `up` deployed."""
    from gpuferry.operate import servers

    servers.converge(
        project(directory, stack),
        names or [],
        full=full,
        check_only=check,
        disturb=disturb,
        as_json=json,
    )
