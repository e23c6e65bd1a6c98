"""ferry lint"""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry lint --fix")(lint)


def lint(
    fix: Annotated[bool, typer.Option("--fix", help="Mend what can be mended.")] = False,
) -> None:
    """Run every linter and type checker."""
    from gpuferry.operate import linting

    raise typer.Exit(linting.run(fix=fix))
