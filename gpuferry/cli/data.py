"""ferry data"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Stack, project

_EXAMPLE = "Example: ./ferry data push /data/faces --server gpu-1"
Server = Annotated[str | None, typer.Option(help="Server with the folder; left out: this machine.")]
Store = Annotated[
    str | None, typer.Option(help="Object store; may be left out where there is one.")
]


def register(app: typer.Typer) -> None:
    """Add the command with its own commands."""
    group = typer.Typer(no_args_is_help=True, help="Data sets, encrypted before they leave.")
    group.callback(epilog=_EXAMPLE)(_group)
    group.command(epilog=_EXAMPLE)(push)
    group.command(epilog="Example: ./ferry data pull faces --to /data/faces --server gpu-2")(pull)
    group.command("list", epilog="Example: ./ferry data list --json")(list_)
    app.add_typer(group, name="data", epilog=_EXAMPLE)


def _group() -> None:
    """Data sets, encrypted before they leave the server, in the stack's object stores."""


def push(
    folder: Annotated[str, typer.Argument(help="What to push: a folder's contents.")],
    server: Server = None,
    store: Store = None,
    as_: Annotated[
        str | None, typer.Option("--as", help="Name of the data set; default: the folder's.")
    ] = None,
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    json: Json = False,
) -> None:
    """Encrypt a folder into an object store; only what is new is sent."""
    from gpuferry.operate import sealed

    sealed.push(
        project(directory, stack), folder, server=server, store=store, name=as_, as_json=json
    )


def pull(
    name: Annotated[str, typer.Argument(help="Data set, as `data list` names it.")],
    to: Annotated[str, typer.Option(help="An empty or new folder.")],
    server: Server = None,
    store: Store = None,
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    json: Json = False,
) -> None:
    """Restore the newest snapshot of a data set, and compare every file."""
    from gpuferry.operate import sealed

    sealed.pull(project(directory, stack), name, to, server=server, store=store, as_json=json)


def list_(
    store: Store = None, stack: Stack = STACK, directory: Directory = DIRECTORY, json: Json = False
) -> None:
    """What was pushed, from where, and when."""
    from gpuferry.operate import sealed

    sealed.show(project(directory, stack), store=store, as_json=json)
