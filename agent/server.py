"""GET /metrics, /state and /healthy, for who has the token. Read-only."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_MOST_AT_ONCE = 16
_PATIENCE_SECONDS = 5
# Who sends a byte now and then keeps a place no longer than this when others wait for one.
_PLACE_SECONDS = 10.0


def ensure_token(path: Path) -> None:
    """Make a token where there is none, or an empty file; it never leaves the server by itself.

    Raises:
        OSError: it cannot be written.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size:
            return
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as handle:
        handle.write(secrets.token_urlsafe(32) + "\n")
        handle.flush()
        os.fsync(handle.fileno())
    draft.replace(path)


class Server(ThreadingHTTPServer):
    """Answers a few at once; who is too many is told so and not kept waiting."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        listen: str,
        port: int,
        token_file: str,
        pages: dict[str, Callable[[], bytes]],
        say: Callable[[str], None],
        scrape_token_file: str = "",
    ) -> None:
        if ipaddress.ip_address(listen).version == 6:
            self.address_family = socket.AF_INET6
        self.pages = pages
        self.say = say
        self._lock = threading.Lock()
        self._places: dict[Any, float] = {}
        self._token_file, self._scrape_token_file = token_file, scrape_token_file
        super().__init__((listen, port), _Handler)

    def allows(self, header: str | None, path: str = "") -> bool:
        """Whether a request has a token; nobody does while the token cannot be read.

        The token of who scrapes is good for /metrics alone.
        """
        if not self._token_file:
            return True
        given = (header or "").removeprefix("Bearer ")
        files = [self._token_file]
        if path == "/metrics" and self._scrape_token_file:
            files.append(self._scrape_token_file)
        found = [_holds(file, given) for file in files]
        return any(found)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand it to a thread, if there is room."""
        now = time.monotonic()
        with self._lock:
            full = len(self._places) >= _MOST_AT_ONCE
            late = [r for r, since in self._places.items() if full and now > since + _PLACE_SECONDS]
            if not full:
                self._places[request] = now
        for slow in late:
            with contextlib.suppress(OSError):
                slow.shutdown(socket.SHUT_RDWR)
        if full:
            request.settimeout(1)
            try:
                request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
            except OSError:
                pass
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._places.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


def _holds(file: str, given: str) -> bool:
    try:
        # Read each time: a rotated token counts at once.
        token = Path(file).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return False
    return bool(token) and hmac.compare_digest(given.encode(), token.encode())


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = _PATIENCE_SECONDS
    server_version = "node-agent"
    sys_version = ""

    def do_GET(self) -> None:
        """One page."""
        page = self.server.pages.get(self.path.split("?")[0])
        if self.path == "/healthy":
            # Says only that the process answers: no reading, so no token.
            self._answer(200, b"ok\n")
        elif not self.server.allows(self.headers.get("Authorization"), self.path.split("?")[0]):
            self._answer(401, b"a bearer token is needed\n", {"WWW-Authenticate": "Bearer"})
        elif page is None:
            self._answer(404, b"there are /metrics, /state and /healthy\n")
        else:
            self._page(page)

    def _page(self, page: Callable[[], bytes]) -> None:
        try:
            text = page()
        except Exception as error:
            # A fault of ours: told to who asks and to the journal, and the agent goes on.
            self.server.say(f"{self.path} failed: {type(error).__name__}: {error}")
            self._answer(500, b"this page failed; see the agent's journal\n")
            return
        self._answer(200, text)

    def _answer(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        kind = "application/json" if self.path == "/state" and code == 200 else "text/plain"
        self.send_header("Content-Type", f"{kind}; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class' name
        """Scrapes are not written down."""
