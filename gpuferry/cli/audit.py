"""ferry audit"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Stack, project

Table = Annotated[Path, typer.Argument(help="Table of workloads: YAML, CSV or XLSX.")]
OffersFile = Annotated[
    Path | None,
    typer.Option("--offers", help="File of offers (YAML, CSV, XLSX); without: the catalogue."),
]


def register(app: typer.Typer) -> None:
    """Add the command with its own commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.callback(epilog="Example: ./ferry audit plan workloads.yaml --offers offers.yaml")(_group)
    group.command(epilog="Example: ./ferry audit init workloads.yaml --offers offers.yaml")(init)
    group.command(epilog="Example: ./ferry audit columns --json")(columns)
    group.command(epilog="Example: ./ferry audit gpus 'NVIDIA L40S'")(gpus)
    group.command(epilog="Example: ./ferry audit check workloads.csv --json")(check)
    group.command(
        epilog="Example: ./ferry audit measure --id resnet --kind train --for 2h --ssh trainer-1"
    )(measure)
    group.command(
        epilog="Example: ./ferry audit plan workloads.yaml --offers offers.yaml --html report.html"
    )(plan)
    group.command(epilog="Example: ./ferry audit show workloads.yaml resnet50")(show)
    group.command(
        epilog="Example: ./ferry audit apply workloads.yaml --offers offers.yaml --stack move"
    )(apply)
    app.add_typer(
        group,
        name="audit",
        epilog="Example: ./ferry audit plan workloads.yaml --offers offers.yaml",
    )


def _group() -> None:
    """From a table of workloads to the servers to rent, with the reasons."""


def init(
    table: Annotated[Path, typer.Argument(help="File to write.")] = Path("workloads.yaml"),
    offers: Annotated[
        Path | None, typer.Option("--offers", help="Also write example offers here.")
    ] = None,
) -> None:
    """Write a commented example table."""
    from gpuferry.operate import auditing

    auditing.init(table, offers)


def columns(json: Json = False) -> None:
    """List the columns of the table and what they accept."""
    from gpuferry.operate import auditing

    auditing.columns(as_json=json)


def gpus(
    name: Annotated[str | None, typer.Argument(help="Find one by its name.")] = None,
    json: Json = False,
) -> None:
    """List the GPUs of the catalogue, or find one; exit 1 when it is not known."""
    from gpuferry.operate import auditing

    raise typer.Exit(auditing.gpus(name, as_json=json))


def check(table: Table, offers: OffersFile = None, json: Json = False) -> None:
    """Read a table and name every mistake in it; exit 2 when there is one."""
    from gpuferry.operate import auditing

    raise typer.Exit(auditing.check(table, offers, as_json=json))


def measure(
    name: Annotated[str, typer.Option("--id", help="Name of the workload.")],
    kind: Annotated[
        str, typer.Option(help="train, finetune, infer, render, sim or etl.")
    ] = "train",
    duration: Annotated[
        str, typer.Option("--for", help="How long, such as 90s, 20m or 2h.")
    ] = "60s",
    ssh: Annotated[
        str | None, typer.Option(help="Host, as `ssh` knows it; without: this machine.")
    ] = None,
    ssh_config: Annotated[
        Path | None, typer.Option(help="Configuration file for ssh instead of your own.")
    ] = None,
    pid: Annotated[
        int | None, typer.Option(min=1, help="Only this process and its children.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder there whose files are counted.")] = None,
    every: Annotated[float, typer.Option(min=0.1, max=300, help="Seconds between samples.")] = 5,
    out: Annotated[Path | None, typer.Option(help="File for the row; without: stdout.")] = None,
    json: Json = False,
) -> None:
    """Watch a machine or a job where it runs today; writes a row with basis measured."""
    from gpuferry.audit.measure.arguments import seconds_of
    from gpuferry.operate import auditing

    raise typer.Exit(
        auditing.measure(
            name, kind, ssh=ssh, seconds=seconds_of(duration), pid=pid, data=data, out=out,
            every=every, ssh_config=ssh_config, as_json=json,
        )
    )  # fmt: skip


def plan(
    table: Table,
    offers: OffersFile = None,
    html: Annotated[Path | None, typer.Option(help="Also write a report to this file.")] = None,
    json: Json = False,
) -> None:
    """Decide which servers to rent; exit 1 when a workload gets none."""
    from gpuferry.operate import auditing

    raise typer.Exit(auditing.plan(table, offers, html, as_json=json))


def show(
    table: Table,
    name: Annotated[str, typer.Argument(help="Id of the workload.")],
    offers: OffersFile = None,
    json: Json = False,
) -> None:
    """Show everything about one workload: terms, reasons, every GPU."""
    from gpuferry.operate import auditing

    raise typer.Exit(auditing.show(table, offers, name, as_json=json))


def apply(
    table: Table,
    offers: OffersFile = None,
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
    provider: Annotated[
        str, typer.Option(help="For a stack file that does not exist yet.")
    ] = "local",
    ssh_from: Annotated[
        list[str] | None, typer.Option(help="Network that may reach SSH; may be repeated.")
    ] = None,
    rehearsal: Annotated[
        bool, typer.Option("--rehearsal", help="Sizes that this machine can carry.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change only.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Write the servers into the stack file; hand edits and comments stay."""
    from gpuferry.operate import auditing

    auditing.apply(
        project(directory, stack), table, offers, provider=provider, ssh_from=ssh_from or [],
        rehearsal=rehearsal, yes=yes, dry_run=dry_run,
    )  # fmt: skip
