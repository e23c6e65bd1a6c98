"""ferry preview"""

from __future__ import annotations

import typer

from gpuferry.cli.options import (
    DIRECTORY,
    STACK,
    Directory,
    Json,
    PolicyConfig,
    Stack,
    project,
    set_policy_config,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry preview --stack prod --json")(preview)


def preview(
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    json: Json = False,
    policy_config: PolicyConfig = None,
) -> None:
    """Say what `up` would change; touches nothing."""
    from gpuferry.operate import deployment

    set_policy_config(policy_config)
    deployment.preview(project(directory, stack), as_json=json)
