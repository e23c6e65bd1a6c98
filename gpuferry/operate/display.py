"""How a deployment looks while it runs: a live list on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from gpuferry.engine import events

_DONE = {
    "create": "created",
    "update": "updated",
    "replace": "replaced",
    "create-replacement": "created again",
    "delete-replaced": "removed (to be made again)",
    "delete": "removed",
    "refresh": "read",
}
_PLANNED = {
    "create": "would be created",
    "update": "would be updated",
    "replace": "would be made again",
    "create-replacement": "would be created again",
    "delete-replaced": "would be removed first",
    "delete": "would be removed",
}


class Progress:
    """Shows events as they come; use it as a context manager and pass `on_event` on."""

    def __init__(self, *, quiet: bool = False, planned: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False)
        self._started = time.monotonic()
        self._running: dict[str, tuple[float, str]] = {}
        self._words = _PLANNED if planned else _DONE
        self._planned = planned
        self._live = Live(
            get_renderable=self._table,
            console=self._console,
            refresh_per_second=8,
            transient=True,
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def say(self, text: str) -> None:
        """A line about the run as a whole."""
        self._line("", text)

    def on_event(self, event: events.Event) -> None:
        """Show one event of the engine."""
        if isinstance(event, events.Started) and event.name and event.operation != "same":
            self._running[event.name] = (time.monotonic(), "")
        elif isinstance(event, events.Said):
            self._on_said(event)
        elif isinstance(event, events.Finished):
            self._on_finished(event)

    def _on_said(self, event: events.Said) -> None:
        if event.severity == "error" or event.text.startswith("error: "):
            return  # told once, at the end
        if event.name in self._running:
            since, _ = self._running[event.name]
            self._running[event.name] = (since, event.text)
        if not self._console.is_terminal or event.severity == "warning":
            for line in event.text.splitlines():
                self._line(event.name, line)

    def _on_finished(self, event: events.Finished) -> None:
        since, _ = self._running.pop(event.name, (time.monotonic(), ""))
        if not event.name or event.operation == "same":
            return
        took = f" ({time.monotonic() - since:.0f} s)" if time.monotonic() - since >= 1 else ""
        if event.failed:
            self._line(event.name, f"FAILED{took}")
        else:
            done = self._words.get(event.operation, event.operation)
            self._line(event.name, done if self._planned else f"{done}{took}")

    def _line(self, name: str, text: str) -> None:
        clock = f"{time.monotonic() - self._started:4.0f} s"
        shown = f"{name:<22}  {text}" if name else text
        self._console.print(f"[dim]{clock}[/dim]  {escape(shown)}", soft_wrap=True)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for name, (since, text) in self._running.items():
            table.add_row(
                Spinner("dots"), Text(name), Text(f"{time.monotonic() - since:.0f} s"),
                Text(text[:90], overflow="ellipsis", no_wrap=True),
            )  # fmt: skip
        return table
