"""ferry down"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import (
    DIRECTORY,
    STACK,
    Directory,
    DiscardRetained,
    Json,
    Stack,
    TakeOver,
    project,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry down --stack local --yes")(down)


def down(
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    discard_retained_objects: DiscardRetained = False,
    json: Json = False,
    take_over_lock: TakeOver = False,
) -> None:
    """Remove everything the stack made: servers, disks, buckets and their data."""
    from gpuferry.operate import deployment

    deployment.down(
        project(directory, stack),
        yes=yes,
        discard_retained=discard_retained_objects,
        as_json=json,
        take_over=take_over_lock,
    )
