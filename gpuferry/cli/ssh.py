"""ferry ssh"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Stack, project
from gpuferry.errors import SpecError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example: ./ferry ssh gpu-1 -- systemctl is-system-running",
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )(ssh)


def ssh(
    name: Annotated[str, typer.Argument(help="Server; options go before it.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="Command to run there; a shell when none is given.")
    ] = None,
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
) -> None:
    """Log in to a server, its host key pinned, or run one command there."""
    from gpuferry.operate import servers

    remote = command or []
    if remote and remote[0].startswith("-") and remote[0] != "--":
        raise SpecError(
            f"{remote[0]} goes before the server's name: ./ferry ssh {remote[0]} … {name}"
        )
    # Everything behind the name belongs to the command, a first `--` only separates it.
    remote = remote[1:] if remote[:1] == ["--"] else remote
    raise typer.Exit(servers.ssh(project(directory, stack), name, remote))
