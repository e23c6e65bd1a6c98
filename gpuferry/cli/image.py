"""ferry image"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Stack, project


def register(app: typer.Typer) -> None:
    """Add the command with its own commands."""
    group = typer.Typer(no_args_is_help=True, help="Images that servers start from.")
    build = typer.Typer(no_args_is_help=True, help="Make an image.")
    group.callback(epilog="Example: ./ferry image build node")(_group)
    build.callback(epilog="Example: ./ferry image build node")(_build)
    build.command(epilog="Example: ./ferry image build node gpu-1")(node)
    group.add_typer(build, name="build", epilog="Example: ./ferry image build node")
    app.add_typer(group, name="image", epilog="Example: ./ferry image build node")


def _group() -> None:
    """Images that servers start from."""


def _build() -> None:
    """Make an image."""


def node(
    name: Annotated[
        str | None, typer.Argument(help="Server of the stack file; all of them by default.")
    ] = None,
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    rebuild: Annotated[bool, typer.Option(help="Also when the image is there already.")] = False,
    json: Json = False,
) -> None:
    """Converge a server once and keep it as the image that local servers start from."""
    from gpuferry.operate import baking

    baking.build(project(directory, stack), name, rebuild=rebuild, as_json=json)
