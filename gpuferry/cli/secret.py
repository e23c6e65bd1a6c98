"""ferry secret"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import (
    DIRECTORY,
    STACK,
    Directory,
    Json,
    Stack,
    TakeOver,
    project,
)

_EXAMPLE = "Example: ./ferry secret set hf-token < token.txt"
Name = Annotated[str, typer.Argument(help="Lower-case letters, digits, '-' and '_'.")]


def register(app: typer.Typer) -> None:
    """Add the command with its own commands."""
    group = typer.Typer(no_args_is_help=True, help="Secrets that jobs read as files in memory.")
    group.callback(epilog=_EXAMPLE)(_group)
    group.command("set", epilog=_EXAMPLE)(set_)
    group.command("list", epilog="Example: ./ferry secret list --json")(list_)
    group.command(epilog="Example: ./ferry secret rotate hf-token < new-token.txt")(rotate)
    group.command(epilog="Example: ./ferry secret remove hf-token")(remove)
    app.add_typer(group, name="secret", epilog=_EXAMPLE)


def _group() -> None:
    """Secrets that jobs read as files in memory."""


def set_(
    name: Name,
    server: Annotated[
        list[str] | None,
        typer.Option(help="Server that gets it; repeatable. Default: as before, or all."),
    ] = None,
    uid: Annotated[
        int | None,
        typer.Option(
            help="Number of the user that may read it. Default: as before, or root.", min=0
        ),
    ] = None,
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    json: Json = False,
) -> None:
    """Keep a value, encrypted, in the stack file; the next `up` delivers it.

    The value comes from stdin, or is asked for without echo; it is never an argument.
    """
    from gpuferry.operate import secrets

    secrets.set_(project(directory, stack), name, server, uid, as_json=json)


def list_(stack: Stack = STACK, directory: Directory = DIRECTORY, json: Json = False) -> None:
    """Names, where they go and when they were last set; never values."""
    from gpuferry.operate import secrets

    secrets.show(project(directory, stack), as_json=json)


def rotate(
    name: Name,
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    json: Json = False,
    take_over_lock: TakeOver = False,
) -> None:
    """Replace a value and deploy, so that no server has the old one any more."""
    from gpuferry.operate import secrets

    secrets.rotate(project(directory, stack), name, as_json=json, take_over=take_over_lock)


def remove(
    name: Name, stack: Stack = STACK, directory: Directory = DIRECTORY, json: Json = False
) -> None:
    """Take a secret out of the stack file; the next `up` removes it from the servers."""
    from gpuferry.operate import secrets

    secrets.remove(project(directory, stack), name, as_json=json)
