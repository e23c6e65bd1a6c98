"""ferry doctor"""

from __future__ import annotations

import typer

from gpuferry.cli.options import Json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry doctor --json")(doctor)


def doctor(json: Json = False) -> None:
    """List every prerequisite: found, missing, how to get it."""
    from gpuferry.operate import diagnosis

    diagnosis.show(as_json=json)
