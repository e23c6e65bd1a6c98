"""ferry logs"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Stack, project
from gpuferry.errors import SpecError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry logs gpu-1 --since 2h --unit docker")(logs)


def logs(
    name: Annotated[
        str | None, typer.Argument(help="Server, also one that is gone; left out: which there are.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="From then on: 30m, 2h, 3d (ago) or 2026-11-30T21:57 (UTC).")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Before then.")] = None,
    unit: Annotated[str | None, typer.Option(help="Of this systemd unit only.")] = None,
    container: Annotated[str | None, typer.Option(help="Of this container only, by name.")] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove what is older than logs.retention_days.")
    ] = False,
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    json: Annotated[bool, typer.Option("--json", help="One JSON object for each line.")] = False,
) -> None:
    """Read logs back from the object store, oldest first."""
    from gpuferry.operate import logs as reading

    named = project(directory, stack)
    if prune:
        if (name, since, until, unit, container) != (None,) * 5:
            raise SpecError(
                "--prune takes no server and no other option: it removes what is older than "
                "gpuferry:logs.retention_days, of all servers."
            )
        reading.prune(named, as_json=json)
        return
    reading.show(
        named, name, since=since, until=until, unit=unit, container=container, as_json=json
    )
