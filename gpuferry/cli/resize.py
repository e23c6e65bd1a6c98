"""ferry resize"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Stack, TakeOver, project


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry resize gpu-1 --cpus 4 --memory-gib 8")(resize)


def resize(
    name: Annotated[
        str | None, typer.Argument(help="Server; not needed with --servers alone.")
    ] = None,
    cpus: Annotated[float | None, typer.Option(help="CPUs.", min=0.5)] = None,
    memory_gib: Annotated[float | None, typer.Option(help="Memory in GiB.", min=0.5)] = None,
    data_disk_gib: Annotated[
        int | None, typer.Option(help="Data disk in GiB; it can only grow.", min=1)
    ] = None,
    servers: Annotated[
        int | None, typer.Option(help="Number of servers; new ones are like the last one.", max=64)
    ] = None,
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before removing.")] = False,
    json: Json = False,
    take_over_lock: TakeOver = False,
) -> None:
    """Change sizes, then deploy. Data is kept; a growing disk stops its server shortly."""
    from gpuferry.operate import resizing

    wanted = resizing.Sizes(cpus=cpus, memory_gib=memory_gib, data_disk_gib=data_disk_gib)
    resizing.resize(
        project(directory, stack),
        name,
        wanted,
        servers=servers,
        yes=yes,
        as_json=json,
        take_over=take_over_lock,
    )
