"""ferry sim"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gpuferry.cli.options import DIRECTORY, STACK, Directory, Json, Stack, project
from gpuferry.engine.project import Project

Gpu = Annotated[int | None, typer.Option(min=0, help="Index of the GPU; all when none is given.")]

# The same options as before the server's name.
_Stack = Annotated[str | None, typer.Option("--stack", "-s", help="Stack to work on.")]
_Directory = Annotated[
    Path | None,
    typer.Option("--directory", "-C", help="Folder with Pulumi.yaml and the stack files."),
]

_KINDS = (
    "lost, unknown-error, reset-required, xid, throttle, ecc-corrected, ecc-uncorrected, "
    "remap-pending, remap-failed, memory-leak, energy-reset (with --gpu); hang, delay, "
    "not-supported, absent (with --function); driver-not-loaded, version-mismatch, no-devices, "
    "wide-processes"
)


def register(app: typer.Typer) -> None:
    """Add the command and its subcommands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.callback(epilog="Example: ./ferry sim gpu-1 set --gpu 0 utilization=95 temperature=83")(
        _sim
    )
    group.command("show", epilog="Example: ./ferry sim gpu-1 show --json")(show)
    group.command(
        "set", epilog="Example: ./ferry sim gpu-1 set --gpu 0 power=0:30,10:71,20:30,loop,linear"
    )(set_)
    group.command(epilog="Example: ./ferry sim gpu-1 fault xid --gpu 0 --code 79")(fault)
    group.command(epilog="Example: ./ferry sim gpu-1 clear")(clear)
    app.add_typer(group, name="sim")


@dataclass(frozen=True)
class _Server:
    """What stands before the subcommand."""

    name: str
    stack: str
    directory: Path

    def project(self, stack: str | None, directory: Path | None) -> Project:
        """The project; what stands behind the subcommand wins."""
        return project(directory or self.directory, stack or self.stack)


def _sim(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Server with simulated GPUs.")],
    stack: Stack = STACK,
    directory: Directory = DIRECTORY,
) -> None:
    """Change what the simulated GPUs of a running server say, or inject faults."""
    context.obj = _Server(name, stack, directory)


def show(
    context: typer.Context,
    stack: _Stack = None,
    directory: _Directory = None,
    json: Json = False,
) -> None:
    """Show what is set and which faults are in force."""
    from gpuferry.operate import simulation

    simulation.show(context.obj.project(stack, directory), context.obj.name, as_json=json)


def set_(
    context: typer.Context,
    assignments: Annotated[
        list[str],
        typer.Argument(
            help="NAME=VALUE; over time NAME=0:30,10:95[,loop][,linear] (seconds:value); "
            "NAME=absent: not supported; NAME=default: the model's own.",
        ),
    ],
    gpu: Gpu = None,
    stack: _Stack = None,
    directory: _Directory = None,
    json: Json = False,
) -> None:
    """Set readings, such as utilization, temperature, power, memory_used."""
    from gpuferry.operate import simulation

    simulation.set_readings(
        context.obj.project(stack, directory), context.obj.name, gpu, assignments, as_json=json
    )


def fault(
    context: typer.Context,
    kind: Annotated[str | None, typer.Argument(help=f"One of: {_KINDS}.")] = None,
    gpu: Annotated[int | None, typer.Option(min=0, help="Index of the GPU.")] = None,
    function: Annotated[
        str | None, typer.Option(help="NVML function, such as nvmlDeviceGetPowerUsage.")
    ] = None,
    code: Annotated[int | None, typer.Option(help="Xid, for the fault xid.")] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Errors, or MiB for memory-leak.")
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option(help="power-cap, hw-slowdown, sw-thermal, hw-thermal or power-brake."),
    ] = None,
    milliseconds: Annotated[int | None, typer.Option(min=1, help="For the fault delay.")] = None,
    stack: _Stack = None,
    directory: _Directory = None,
    json: Json = False,
) -> None:
    """Inject a fault; it stays until `clear`."""
    from gpuferry.errors import SpecError
    from gpuferry.operate import simulation
    from gpuferry.simulation.faults import Request

    if kind is None:
        raise SpecError(f"No fault was named; accepted: {_KINDS}.")
    request = Request(kind, gpu, function, code, count, reason, milliseconds)
    simulation.inject(
        context.obj.project(stack, directory), context.obj.name, request, as_json=json
    )


def clear(
    context: typer.Context,
    stack: _Stack = None,
    directory: _Directory = None,
    json: Json = False,
) -> None:
    """Take away all faults and set readings."""
    from gpuferry.operate import simulation

    simulation.clear(context.obj.project(stack, directory), context.obj.name, as_json=json)
