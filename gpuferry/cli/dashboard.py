"""ferry dashboard"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Names, Stack, project


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry dashboard --port 8800")(dashboard)


def dashboard(
    names: Names = None,
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    port: Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0: a free one.")] = 0,
    seconds: Annotated[
        float, typer.Option(min=0.5, max=60, help="Between two looks at a server.")
    ] = 2.0,
) -> None:
    """Serve a page on this machine: GPUs, jobs, states, alerts, disks, checks, charts."""
    from gpuferry.operate import watching

    watching.dashboard(project(directory, stack), names or [], port=port, seconds=seconds)
