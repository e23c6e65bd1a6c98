"""ferry up"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import (
    DIRECTORY,
    STACK,
    Directory,
    DiscardRetained,
    Json,
    PolicyConfig,
    Stack,
    TakeOver,
    project,
    set_policy_config,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry up --stack local")(up)


def up(
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before data is removed.")
    ] = False,
    discard_retained_objects: DiscardRetained = False,
    json: Json = False,
    policy_config: PolicyConfig = None,
    take_over_lock: TakeOver = False,
) -> None:
    """Make servers and buckets, converge and verify them."""
    from gpuferry.operate import deployment

    set_policy_config(policy_config)
    deployment.up(
        project(directory, stack),
        as_json=json,
        take_over=take_over_lock,
        yes=yes,
        discard_retained=discard_retained_objects,
    )
