"""top and dashboard: look at all servers while they work."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from typing import Any

from rich.console import Console
from rich.live import Live

from gpuferry.engine.project import Project
from gpuferry.errors import PrerequisiteMissing, SpecError
from gpuferry.inventory import Entry
from gpuferry.operate.console import print_json, say_on_stderr, stdout_console
from gpuferry.operate.servers import deployed, on_this_stack
from gpuferry.verify import verify
from gpuferry.watch.frame import Fitted, frame
from gpuferry.watch.ring import Ring
from gpuferry.watch.stream import Streams
from gpuferry.watch.web import Dashboard

# A first line needs a handshake and one look.
_FIRST_SECONDS = 20.0
_REDRAWN_A_SECOND = 4
# Checks cost a server seconds of processor time.
_CHECK_SECONDS = 900.0
_MOST_HOURS = 24.0 * 31


def top(project: Project, names: list[str], *, seconds: float, once: bool, as_json: bool) -> None:
    """Draw all servers until interrupted; with `once` or as JSON one look, then the end.

    Raises:
        PrerequisiteMissing: no server answered at all, in the one look.
    """
    servers = [entry.server for entry in deployed(project, names)]
    with Streams(servers, seconds) as streams:
        if once or as_json or not sys.stdout.isatty():
            say_on_stderr("connecting")
            streams.wait(_FIRST_SECONDS)
            views = streams.views()
            if as_json:
                rows = [dataclasses.asdict(view) for view in views]
                print_json({"ok": True, "stack": project.stack, "servers": rows})
            else:
                stdout_console().print(frame(views, project.stack))
            if all(view.at is None for view in views):
                why = "; ".join(f"{view.name}: {view.trouble}" for view in views)
                raise PrerequisiteMissing(f"No server answered: {why}.")
            return
        console = Console(highlight=False)
        rate = _REDRAWN_A_SECOND
        with Live(console=console, screen=True, refresh_per_second=rate) as live:
            try:
                while True:
                    live.update(Fitted(frame(streams.views(), project.stack)))
                    time.sleep(1 / rate)
            except KeyboardInterrupt:
                # The usual way out of a display that has no other end.
                return


class _Checks:
    """The verdicts of the last look, renewed in a thread of its own."""

    def __init__(self, entries: list[Entry], project: Project) -> None:
        self._entries, self._project = entries, project
        self._verdicts: list[dict[str, Any]] = []
        self._trouble = ""
        self._made: float | None = None
        threading.Thread(target=self._repeat, daemon=True).start()

    def told(self) -> dict[str, Any]:
        age = None if self._made is None else time.monotonic() - self._made
        return {"verdicts": self._verdicts, "trouble": self._trouble, "age_seconds": age}

    def _repeat(self) -> None:
        while True:
            try:
                found = [on_this_stack(v, self._project) for v in verify(self._entries)]
                self._verdicts = [verdict.model_dump() for verdict in found]
                self._made, self._trouble = time.monotonic(), ""
            except Exception as error:
                # Whatever it was: the next look may succeed, and the page says why there is none.
                self._trouble = f"the checks could not be made: {error or type(error).__name__}"
            time.sleep(_CHECK_SECONDS)


def dashboard(project: Project, names: list[str], *, port: int, seconds: float) -> None:
    """Serve the page on loopback until interrupted; says its address on stdout.

    Raises:
        SpecError: the port is taken.
    """
    entries = deployed(project, names)
    ring, opened = Ring(), time.time()
    with Streams([entry.server for entry in entries], seconds, ring.add) as streams:

        def now(_query: dict[str, str]) -> dict[str, Any]:
            seen = [dataclasses.asdict(view) for view in streams.views()]
            return {"stack": project.stack, "servers": seen, "checks": checks.told()}

        def history(query: dict[str, str]) -> dict[str, Any]:
            try:
                hours = min(max(0.1, float(query.get("hours", ""))), _MOST_HOURS)
            except ValueError:
                hours = 6.0
            end = time.time()
            start = end - hours * 3600
            kept = streams.history(hours)
            source = (
                "Kept by the stack's Prometheus."
                if kept
                else "Since this dashboard was opened; the monitoring role keeps more."
            )
            points = kept or ring.points(start)
            if not kept:
                start = max(start, opened)
            return {
                "start": start,
                "end": end,
                "source": source,
                "points": points,
                "names": dict(ring.names),
            }

        try:
            server = Dashboard(port, {"now": now, "history": history})
        except OSError as error:
            raise SpecError(
                f"--port {port} cannot be used: {error.strerror}; 0 takes a free one."
            ) from None
        checks = _Checks(entries, project)
        print(server.url, flush=True)
        say_on_stderr("open it in a browser of this machine; whoever has it can look; Ctrl-C ends")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
        finally:
            server.server_close()
