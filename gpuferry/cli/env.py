"""ferry env"""

from __future__ import annotations

import json as json_module
import shlex

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Stack, project


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog='Example: eval "$(./ferry env)" && pulumi up')(env)


def env(
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    json: Json = False,
) -> None:
    """Print the environment in which a plain `pulumi` works on this project."""
    from gpuferry.engine import find
    from gpuferry.operate.console import say_on_stderr

    engine = find.ensure(say_on_stderr)
    find.prepare_state()
    variables = find.environment(engine, project(directory, stack))
    if json:
        print(json_module.dumps(variables, indent=2))
        return
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
