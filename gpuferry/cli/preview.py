"""ferry preview"""

from __future__ import annotations

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Stack, project


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry preview --stack prod --json")(preview)


def preview(
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    json: Json = False,
) -> None:
    """Say what `up` would change; touches nothing."""
    from gpuferry.operate import deployment

    deployment.preview(project(directory, stack), as_json=json)
