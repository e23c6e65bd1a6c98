"""ferry test"""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example: ./ferry test unit -k spec",
        context_settings={"ignore_unknown_options": True},
    )(test)


def test(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SUITE]... [PYTEST-OPTION]...",
            help="unit, gpusim, browser, conformance, nodes, vm, e2e; all of these by default. "
            "From the first word that starts with - on, everything goes to pytest; "
            "--slow takes in what is left out otherwise (an hour more).",
        ),
    ] = None,
) -> None:
    """Run the tests; what they start, they stop."""
    from gpuferry.operate import testing

    given = words or []
    first = next((i for i, word in enumerate(given) if word.startswith("-")), len(given))
    raise typer.Exit(testing.run(given[:first], given[first:]))
