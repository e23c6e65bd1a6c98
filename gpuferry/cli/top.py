"""ferry top"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Names, Stack, project


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry top --once")(top)


def top(
    names: Names = None,
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    seconds: Annotated[
        float, typer.Option(min=0.5, max=60, help="Between two looks at a server.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="One look, then the end.")] = False,
    json: Json = False,
) -> None:
    """Watch servers live: GPUs, jobs, states, alerts, disks. Ctrl-C ends it."""
    from gpuferry.operate import watching

    watching.top(project(directory, stack), names or [], seconds=seconds, once=once, as_json=json)
