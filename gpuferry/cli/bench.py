"""ferry bench"""

from __future__ import annotations

from typing import Annotated

import typer

from gpuferry.cli.options import Json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: ./ferry bench converge --json")(bench)


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="converge, first-converge, up, scale, checks, baked, audit, agent, logs, alerts; "
            "all by default."
        ),
    ] = None,
    runs: Annotated[int, typer.Option(help="Counted runs of each side.")] = 5,
    json: Json = False,
) -> None:
    """Compare the speed with plain Ansible, pyinfra and a shell script."""
    import tests.bench.main as measuring

    raise typer.Exit(measuring.run(names or [], runs=runs, as_json=json))
