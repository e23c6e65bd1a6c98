"""ferry plan"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Stack, project


def register(app: typer.Typer) -> None:
    """Add the command with its own commands."""
    group = typer.Typer(no_args_is_help=True, help="Show what would be decided; changes nothing.")
    group.callback(epilog="Example: ./ferry plan driver gpu-1")(_group)
    group.command(epilog="Example: ./ferry plan driver gpu-1 --json")(driver)
    app.add_typer(group, name="plan", epilog="Example: ./ferry plan driver gpu-1")


def _group() -> None:
    """Show what would be decided; changes nothing."""


def driver(
    name: Annotated[str, typer.Argument(help="Server.")],
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    facts: Annotated[
        Path | None,
        typer.Option(help="Plan from these facts, offline: a JSON file, or a recorded folder."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Keep all that was read as a folder of fixtures, for a report."),
    ] = None,
    json: Json = False,
) -> None:
    """Decide about a server's driver from its own facts; exit 1 when it is refused."""
    from gpuferry.operate import driver_plan

    raise typer.Exit(
        driver_plan.show(project(directory, stack), name, facts=facts, record=record, as_json=json)
    )
