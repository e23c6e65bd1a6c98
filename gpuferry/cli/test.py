"""ferry test"""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example: ./ferry test unit -k spec",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(test)


def test(
    context: typer.Context,
    suites: Annotated[
        list[str] | None, typer.Argument(help="unit, conformance, nodes, vm, e2e; all by default.")
    ] = None,
) -> None:
    """Run the tests; what they start, they stop."""
    from gpuferry.operate import testing

    raise typer.Exit(testing.run(suites or [], context.args))
