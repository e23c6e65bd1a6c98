"""ferry rebuild"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Stack, TakeOver, project


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry rebuild gpu-1")(rebuild)


def rebuild(
    name: Annotated[str, typer.Argument(help="Server.")],
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before other data is removed.")
    ] = False,
    json: Json = False,
    take_over_lock: TakeOver = False,
) -> None:
    """Give a server a fresh system; only its name, keys and data disk stay."""
    from gpuferry.operate import deployment

    deployment.rebuild(
        project(directory, stack), name, as_json=json, take_over=take_over_lock, yes=yes
    )
