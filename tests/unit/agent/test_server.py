"""Who is answered: the token is there from the start, and nobody but the agent is shown it."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent.__main__
import agent.server
from agent.ask import ask
from agent.config import Config
from agent.server import Server, ensure_token

said: list[str] = []


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Config]:
    token = tmp_path / "token"
    ensure_token(token)

    def bad() -> bytes:
        raise KeyError("uuid")

    said.clear()
    pages = {"/state": lambda: b"fine", "/bad": bad}
    server = Server("127.0.0.1", 0, str(token), pages, said.append)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Config(port=server.server_address[1], token_file=str(token))
    server.shutdown()
    server.server_close()


def test_a_token_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "token"
    ensure_token(path)
    first = path.read_text()
    ensure_token(path)
    assert path.read_text() == first
    assert len(first) > 40
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_token_that_a_crash_left_empty_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    (tmp_path / ".token.draft").write_text("half")
    ensure_token(tmp_path / "token")
    assert len((tmp_path / "token").read_text()) > 40
    assert not (tmp_path / ".token.draft").exists()


@pytest.mark.parametrize("path", ["/state", "state"])
def test_who_may_read_the_token_is_answered(config: Config, path: str) -> None:
    assert ask(config, path) == "fine"


def test_a_page_that_fails_says_so_there_and_in_the_journal(config: Config) -> None:
    with pytest.raises(urllib.error.HTTPError, match="500"):
        ask(config, "/bad")
    assert said == ["/bad failed: KeyError: 'uuid'"]
    assert ask(config, "/state") == "fine"


def test_who_holds_all_places_loses_them(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger that sends a byte now and then; the port may be on a private network."""
    monkeypatch.setattr(agent.server, "_PLACE_SECONDS", 0.2)
    with contextlib.ExitStack() as held:
        for _ in range(agent.server._MOST_AT_ONCE):
            held.enter_context(socket.create_connection(("127.0.0.1", config.port)))
        time.sleep(0.5)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            ask(config, "/state")
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            with contextlib.suppress(urllib.error.HTTPError):
                assert ask(config, "/state") == "fine"
                return
        pytest.fail("nobody is answered")


def test_a_proxy_of_the_environment_is_not_shown_the_token(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(str(self.headers))
            self.send_response(204)
            self.end_headers()

    proxy = http.server.HTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_address[1]}")
    monkeypatch.setenv("no_proxy", "")
    # urllib keeps what it first made of the environment.
    monkeypatch.setattr(urllib.request, "_opener", None)
    assert ask(config, "/state") == "fine"
    proxy.shutdown()
    proxy.server_close()
    assert seen == []


@pytest.mark.parametrize(
    ("page", "code", "words"),
    [("/stat", 2, "'/stat' is no page of the agent; accepted: /metrics, /state, /healthy."),
     ("/state", 1, "may be read by root only. Put sudo before python3.")],
)  # fmt: skip
def test_who_asks_wrongly_is_told_what_is_accepted(
    page: str, code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def refused(config: Config, path: str) -> str:
        raise PermissionError(13, "Permission denied", str(tmp_path / path))

    # The tests may run as root, who may read everything.
    monkeypatch.setattr(agent.__main__, "ask", refused)
    (tmp_path / "agent.json").write_text("{}")
    assert agent.__main__.main(["ask", page, str(tmp_path / "agent.json")]) == code
    told = capfd.readouterr()
    assert words in told.out + told.err
