"""The dashboard's web server: loopback only, and only for who has the address with its secret.

Other users of this machine reach loopback too, and so does a page of a browser that lies about
its own name (DNS rebinding): hence the secret in the path and the look at the Host header.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_PAGE = Path(__file__).with_name("page")
_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
# The library that draws puts styles into elements.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

Answer = Callable[[dict[str, str]], Any]


class Dashboard(ThreadingHTTPServer):
    """Serves the page and `answers`: name to a function of the query that gives a document."""

    daemon_threads = True

    def __init__(self, port: int, answers: dict[str, Answer]) -> None:
        """`port` 0 takes a free one.

        Raises:
            OSError: the port is taken.
        """
        self.secret = secrets.token_urlsafe(16)
        self.answers = answers
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """For whoever may look."""
        return f"http://127.0.0.1:{self.server_address[1]}/{self.secret}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no news."""


def _answer(answer: Answer, query: dict[str, str]) -> tuple[int, str, bytes]:
    """Code, kind and body: a fault of ours ends this answer, and is told to who asked."""
    try:
        # Not NaN, which is no JSON for a browser.
        document = json.dumps(answer(query), allow_nan=False)
    except Exception as error:
        return 500, "text/plain", f"this failed: {type(error).__name__}: {error}\n".encode()
    return 200, "application/json", document.encode()


class _Handler(BaseHTTPRequestHandler):
    server: Dashboard
    timeout = 10
    server_version = "ferry"
    sys_version = ""

    def do_GET(self) -> None:
        """A file of the page, or a document."""
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"127.0.0.1:{port}", f"localhost:{port}"):
            return self._send(403, "text/plain", b"open it as 127.0.0.1\n")
        parts = urlsplit(self.path)
        secret, _, name = parts.path.lstrip("/").partition("/")
        if not secrets.compare_digest(secret.encode(), self.server.secret.encode()):
            return self._send(404, "text/plain", b"open the address that ./ferry printed\n")
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        if name in self.server.answers:
            return self._send(*_answer(self.server.answers[name], query))
        if name == "plotly.js":
            from plotly.offline import get_plotlyjs

            return self._send(200, "text/javascript", get_plotlyjs().encode())
        path = _PAGE / (name or "index.html")
        if path.name not in {p.name for p in _PAGE.iterdir()} or "/" in name:
            return self._send(404, "text/plain", b"no such page\n")
        return self._send(200, _KINDS[path.suffix], path.read_bytes())

    def _send(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class' name
        """Requests are not written down: their paths hold the secret."""
