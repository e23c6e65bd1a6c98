"""One ssh process per server that sends its lines; a lost one is started again."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gpuferry.errors import FerryError
from gpuferry.harmless import harmless
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession
from gpuferry.watch import on_server, view
from gpuferry.watch.view import ServerView

# A line has some KB for each GPU; what is longer comes from no server that is well.
_MOST_BYTES = 1 << 22
_FIRST_PAUSE, _MOST_PAUSE = 1.0, 15.0
# For the login shell of the server; the program itself comes on stdin.
_RUN = ("sudo", "-n", "python3", "-I", "-c", "'exec(__import__(\"sys\").stdin.read())'")
_PROGRAM = Path(on_server.__file__).read_text(encoding="utf-8")


class Streams:
    """Use in a `with` block: what each server said last, and why one says nothing.

    `heard` is called, in a thread, with each view of a server that answered.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        seconds: float,
        heard: Callable[[ServerView], None] = lambda found: None,
    ) -> None:
        self._servers = list(servers)
        self._seconds = seconds
        self._heard = heard
        self._session = SshSession(self._servers)
        self._lock = threading.Lock()
        self._views: dict[str, tuple[float, ServerView]] = {}
        self._failed: dict[str, str] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Streams:
        self._session.__enter__()
        for server in self._servers:
            thread = threading.Thread(target=self._follow, args=(server,), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        with self._lock:
            running = list(self._running.values())
        for process in running:
            process.terminate()
        for thread in self._threads:
            thread.join(5)
        self._session.__exit__(None, None, None)

    def views(self) -> list[ServerView]:
        """All servers, in the stack's order; a silent one says so and shows nothing old."""
        with self._lock:
            known, failed = dict(self._views), dict(self._failed)
        found = []
        for server in self._servers:
            at, shown = known.get(server.name, (0.0, None))
            silent = time.monotonic() - at
            if shown is None:
                trouble = failed.get(server.name, "waiting for its first line")
                found.append(ServerView(server.name, trouble=trouble))
            elif silent > view.SILENT_PERIODS * self._seconds + 2:
                why = failed.get(server.name, "")
                said = f"silent for {view.duration(silent)}" + (f": {why}" if why else "")
                found.append(ServerView(server.name, trouble=said))
            else:
                found.append(shown)
        return found

    def wait(self, seconds: float) -> None:
        """Until every server has said something, or has failed to; at most so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self._lock:
                if all(s.name in self._views or s.name in self._failed for s in self._servers):
                    return
            time.sleep(0.05)

    def history(self, hours: float) -> dict[str, Any] | None:
        """What the first server with a Prometheus kept; None where none runs or answers."""
        with self._lock:
            watched = [n for n, (_, shown) in self._views.items() if shown.alerts is not None]
        for server in self._servers:
            if server.name in watched:
                command = [*_RUN, "history", str(hours)]
                try:
                    done = self._session.run(
                        server, " ".join(command), stdin=_PROGRAM.encode(), timeout_seconds=30
                    )
                    told = json.loads(done.stdout) if done.returncode == 0 else None
                except (FerryError, ValueError):
                    continue
                if told is not None:
                    return dict(told)
        return None

    def _follow(self, server: Server) -> None:
        pause = _FIRST_PAUSE
        while not self._stop.is_set():
            lines = self._read(server)
            pause = _FIRST_PAUSE if lines else min(2 * pause, _MOST_PAUSE)
            self._stop.wait(pause)

    def _read(self, server: Server) -> int:
        """Follow one connection to its end; returns how many lines came."""
        argv = ["ssh", "-F", str(self._session.config_path), "-T", server.name, "--"]
        process = subprocess.Popen(
            [*argv, *_RUN, str(self._seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with self._lock:
            self._running[server.name] = process
        lines = 0
        assert process.stdin
        assert process.stdout
        assert process.stderr
        with process:
            try:
                process.stdin.write(_PROGRAM.encode())
                process.stdin.close()
            except BrokenPipeError:
                pass
            said = ""
            for line in iter(partial(process.stdout.readline, _MOST_BYTES), b""):
                try:
                    self._take(server.name, json.loads(line))
                except (ValueError, LookupError, TypeError, AttributeError) as error:
                    # An agent of another release, say: converging the server brings ours.
                    said = f"cannot be understood ({type(error).__name__}: {error}); converge it"
                    process.terminate()
                    break
                lines += 1
            said = said or process.stderr.read().decode(errors="replace").strip()
        last = said.splitlines()[-1] if said else f"ssh ended with {process.returncode}"
        with self._lock:
            self._failed[server.name] = harmless(last)
        return lines

    def _take(self, name: str, line: dict[str, Any]) -> None:
        # By this machine's clock, by which the charts are drawn: a server's own may be wrong.
        found = view.server(name, line | {"at": time.time()})
        with self._lock:
            self._views[name] = time.monotonic(), found
            self._failed.pop(name, None)
        self._heard(found)
