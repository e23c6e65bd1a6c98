"""ferry nodes"""

from __future__ import annotations

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Stack, project


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry nodes --json")(nodes)


def nodes(
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    json: Json = False,
) -> None:
    """List the stack's servers and how to reach them."""
    from gpuferry.operate import servers

    servers.show(project(directory, stack), as_json=json)
