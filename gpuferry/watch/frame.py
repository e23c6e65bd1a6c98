"""What `ferry top` draws: a table of servers, one of GPUs, and what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from gpuferry.watch.view import AlertRow, GpuRow, ServerView, duration

_STYLES = {"critical": "bold red", "warning": "yellow", "info": ""}
_BAR_CELLS = 10
_GIB = 1 << 30


def frame(views: Sequence[ServerView], stack: str) -> RenderableType:
    """One picture of all servers; what is wrong stands above what may not fit a window."""
    parts: list[RenderableType] = [_servers(views, stack)]
    alerts = [alert for view in views for alert in view.alerts or ()]
    if alerts:
        parts += [Text(), _alerts(alerts)]
    elif all(view.alerts is None for view in views):
        silent = ", ".join(view.name for view in views if view.at is None)
        text = (
            f"alerts: not known while {silent} is silent"
            if silent
            else "alerts: not watched (none of these servers runs the monitoring role)"
        )
        parts += [Text(), Text(text, style="dim")]
    rows = [(view.name, gpu) for view in views for gpu in view.gpus]
    wrong = [_finding(f"{n} GPU {gpu.index}", gpu) for n, gpu in rows if gpu.severity != "info"]
    parts += [Text(), *wrong] if wrong else []
    parts += [Text(), _gpus(rows)] if rows else []
    return Group(*parts)


class Fitted:
    """A picture cut to the height of the terminal, which says so."""

    def __init__(self, picture: RenderableType) -> None:
        self._picture = picture

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines that fit; instead of the last one, how many do not."""
        lines = console.render_lines(self._picture, options.update(height=None), pad=False)
        kept = lines if len(lines) <= console.height else lines[: console.height - 1]
        for line in kept:
            yield from line
            yield Segment.line()
        if len(kept) < len(lines):
            more = f"{len(lines) - len(kept)} more lines: a higher window, fewer servers, or --once"
            yield Text(more, style="reverse", end="")


def _servers(views: Sequence[ServerView], stack: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title=f"stack {stack}")
    table.title_justify = "left"
    for column in ("server", "load", "memory", "disks free", "driver", ""):
        table.add_column(column, overflow="fold")
    for view in views:
        note = view.trouble or ("reboot needed" if view.reboot_needed else "")
        style = "bold red" if view.trouble else "yellow"
        _add_row(
            table,
            view.name,
            "" if view.load is None else f"{view.load:.1f} of {view.cpus}",
            _memory(view),
            ", ".join(f"{d.mount} {_share(d.free_bytes, d.size_bytes)}" for d in view.disks),
            view.driver,
            Text(note, style=style),
        )
    return table


def _memory(view: ServerView) -> str:
    if view.memory_bytes is None or view.memory_available_bytes is None:
        return ""
    used = view.memory_bytes - view.memory_available_bytes
    return f"{used / _GIB:.1f} of {view.memory_bytes / _GIB:.0f} GiB"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "?"


def _gpus(rows: Sequence[tuple[str, GpuRow]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("server", "GPU", "model", "used", "memory", "power", "temp", "state", "jobs"):
        table.add_column(column, overflow="fold")
    for server, gpu in rows:
        state = gpu.state + (f" ({gpu.cause})" if gpu.cause else "")
        beside = "".join(f", {name}" for name in gpu.beside)
        _add_row(
            table,
            server,
            str(gpu.index),
            gpu.name.removeprefix("NVIDIA "),
            bar(gpu.utilization),
            _of(gpu.memory_used_bytes, gpu.memory_total_bytes, _GIB, "GiB"),
            _of(gpu.power_watts, gpu.power_limit_watts, 1, "W"),
            "" if gpu.temperature_celsius is None else f"{gpu.temperature_celsius:.0f} °C",
            Text(f"{state}{beside}, {duration(gpu.for_seconds)}", style=_STYLES[gpu.severity]),
            ", ".join(gpu.jobs),
        )
    return table


def bar(share: float | None) -> str:
    """A ratio as a bar with its percentage; `?` where it is not known."""
    if share is None:
        return "?"
    cells = round(min(max(share, 0.0), 1.0) * _BAR_CELLS)
    return "█" * cells + "░" * (_BAR_CELLS - cells) + f" {share:4.0%}"


def _of(part: float | None, whole: float | None, unit: float, name: str) -> str:
    if part is None:
        return "?"
    text = f"{part / unit:.1f}" if unit > 1 else f"{part:.0f}"
    return f"{text} of {whole / unit:.0f} {name}" if whole else f"{text} {name}"


def _finding(where: str, gpu: GpuRow) -> Text:
    text = Text(f"{where}: {gpu.state}: {gpu.evidence}", style=_STYLES[gpu.severity])
    if gpu.next_step:
        text.append(f" Next: {gpu.next_step}", style="default")
    return text


def _alerts(alerts: Sequence[AlertRow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("alert", "server", "what", "next"):
        table.add_column(column, overflow="fold")
    for alert in alerts:
        style = _STYLES.get(alert.severity, "")
        name = Text(alert.name, style=style)
        _add_row(table, name, alert.server, alert.summary, alert.next_step)
    return table


def _add_row(table: Table, *cells: str | Text) -> None:
    """Texts, no markup: a process may be called `[/]`."""
    table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))
