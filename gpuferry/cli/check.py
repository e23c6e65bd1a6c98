"""ferry check"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Names, Stack, project


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry check gpu-1 --only firewall --json")(check)


def check(
    names: Names = None,
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Check id or concern, such as docker or firewall.policy; repeatable."),
    ] = None,
    security: Annotated[
        bool,
        typer.Option(
            "--security",
            help="Only what concerns security, and all of it: also ssh-audit, a scan of all ports "
            "and Lynis (about a minute).",
        ),
    ] = False,
    junit: Annotated[Path | None, typer.Option(help="Also write a JUnit report here.")] = None,
    json: Json = False,
) -> None:
    """Verify servers; exit 1 when a check fails."""
    from gpuferry.operate import servers

    servers.check(
        project(directory, stack),
        names or [],
        only=only or [],
        security=security,
        junit=junit,
        as_json=json,
    )
