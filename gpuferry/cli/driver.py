"""ferry driver"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Stack, project


def register(app: typer.Typer) -> None:
    """Add the command with its own commands."""
    group = typer.Typer(no_args_is_help=True, help="Move the frozen GPU stack on purpose.")
    group.callback(epilog="Example: ./ferry driver upgrade gpu-1 --plan")(_group)
    group.command(epilog="Example: ./ferry driver upgrade gpu-1 --to 580")(upgrade)
    app.add_typer(group, name="driver", epilog="Example: ./ferry driver upgrade gpu-1 --plan")


def _group() -> None:
    """Move the frozen GPU stack on purpose."""


def upgrade(
    name: Annotated[str, typer.Argument(help="Server.")],
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    to: Annotated[
        str | None,
        typer.Option(
            help="Driver branch (580) or version (580.126.09); default: the newest of everything.",
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what would move; changes nothing.")
    ] = False,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Freeze what is installed now, once its checks pass."),
    ] = False,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Undo an upgrade that was interrupted.")
    ] = False,
    drain_seconds: Annotated[
        float, typer.Option(help="How long to wait for GPU work to end.", min=0)
    ] = 600,
    disturb: Annotated[bool, typer.Option("--disturb", help="Interrupt GPU work.")] = False,
    json: Json = False,
) -> None:
    """Drain, install, reboot where needed, check, freeze; back to the old versions on failure.

    An upgrade that was interrupted is finished by the next call.
    """
    from gpuferry.errors import SpecError
    from gpuferry.operate import driver_upgrade
    from gpuferry.operate.upgrading import Options

    # An empty word is a variable that was never set, and no wish for the newest.
    if to is not None and not all(part.isdigit() for part in to.split(".")):
        raise SpecError(f"--to {to!r}: accepted: a branch such as 580, or a version: 580.126.09.")
    if sum((to is not None, accept, rollback)) > 1:
        raise SpecError("Give only one of --to, --accept and --rollback.")
    options = Options(to or "", accept, rollback, plan, disturb, drain_seconds)
    raise typer.Exit(driver_upgrade.run(project(directory, stack), name, options, as_json=json))
