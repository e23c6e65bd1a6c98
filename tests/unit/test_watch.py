"""What `ferry top` and `ferry dashboard` show of a server's line, and to whom."""

from __future__ import annotations

import io
import json
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agent.server import Server, ensure_token
from gpuferry.watch import on_server, view, web
from gpuferry.watch.frame import Fitted, bar, frame
from gpuferry.watch.ring import Ring
from gpuferry.watch.view import ServerView, duration

LINES = Path(__file__).parents[1] / "fixtures" / "watch"


def line(name: str = "gpu-1") -> dict[str, Any]:
    """Recorded from a server with one busy and one lost simulated GPU, and from one without."""
    recorded: dict[str, Any] = json.loads((LINES / f"{name}.json").read_text())
    return recorded


def drawn(*views: ServerView) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(frame(views, "made"))
    return console.export_text()


def test_a_recorded_line_is_told_whole() -> None:
    found = view.server("gpu-1", line())
    busy, lost = found.gpus
    assert (busy.utilization, busy.state, busy.severity) == (0.93, "working", "info")
    assert busy.jobs[0].startswith("gpusim (ferry, ")
    assert (lost.state, lost.severity, lost.utilization) == ("fault", "critical", None)
    assert "lost" in lost.evidence
    assert [disk.mount for disk in found.disks] == ["/", "/data"]
    assert (found.driver, found.trouble, found.alerts) == ("ok", "", None)


def test_a_server_without_gpus_is_told_too() -> None:
    found = view.server("web-1", line("web-1"))
    assert (found.gpus, found.driver, found.trouble) == ((), "", "")
    assert found.load is not None


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        ({"driver": {"status": "hung", "detail": "nvmlInit"}}, "the driver hangs in nvmlInit"),
        ({"driver": {"status": "hung", "detail": ""}}, "the driver hangs in a call"),
        ({"driver": {"status": "failed", "detail": "no driver"}}, "driver failed: no driver"),
        ({"driver": {"status": "starting", "detail": ""}}, "driver starting"),
        ({"visible": 1}, "1 of 2 GPUs are visible"),
        ({"visible": None}, ""),
        ({"stuck_disks": ["/data"]}, "does not answer: /data"),
    ],
)
def test_what_is_wrong_with_a_server_is_said(change: dict[str, Any], trouble: str) -> None:
    told = line()
    told["agent"].update(change)
    assert view.server("gpu-1", told).trouble == trouble


def test_an_agent_that_does_not_answer_leaves_no_gpu_and_no_silence() -> None:
    found = view.server("gpu-1", line() | {"agent": "the node agent does not answer: refused"})
    assert (found.gpus, found.trouble) == ((), "the node agent does not answer: refused")


def test_a_gpu_that_was_not_judged_is_unknown_and_a_job_that_ended_has_its_number() -> None:
    told = line() | {"processes": []}
    told["agent"]["gpus"][0]["states"] = []
    gpu = view.server("gpu-1", told).gpus[0]
    assert (gpu.state, gpu.evidence) == ("unknown", "nothing was judged yet")
    assert gpu.jobs == (str(told["agent"]["gpus"][0]["pids"][0]),)


def test_firing_alerts_are_told() -> None:
    alert = {
        "labels": {"alertname": "GpuLost", "server": "gpu-1", "severity": "critical"},
        "annotations": {"summary": "GPU 1 is lost", "evidence": "Xid 79", "next_step": "drain"},
        "startsAt": "2026-01-01T00:00:00Z",
    }
    alive = {"labels": {"alertname": "Watchdog"}}
    assert view.server("gpu-1", line() | {"alerts": [alive]}).alerts == ()
    (found,) = view.server("gpu-1", line() | {"alerts": [alive, alert]}).alerts or ()
    assert (found.name, found.server, found.summary) == (
        "GpuLost",
        "gpu-1",
        "GPU 1 is lost; Xid 79",
    )
    assert "GpuLost" in drawn(view.server("gpu-1", line() | {"alerts": [alert]}))


@pytest.mark.parametrize(
    ("told", "said"),
    [([], "Watchdog does not fire"), ("Alertmanager does not answer: refused", "refused")],
)
def test_that_nobody_judges_or_delivers_is_an_alert(told: object, said: str) -> None:
    (found,) = view.server("gpu-1", line() | {"alerts": told}).alerts or ()
    assert (found.name, found.server, found.severity) == ("NotWatched", "gpu-1", "critical")
    assert said in found.summary
    assert "gpu-1" in found.next_step


def test_no_name_on_a_server_is_markup_or_moves_the_terminal() -> None:
    told = line()
    told["processes"][0]["name"] = "[/x]\x1b[2J"
    told["agent"]["gpus"][0]["name"] = "[red]\u202e"
    text = drawn(view.server("[/b]", told))
    assert "[/x]\\x1b[2J" in text
    assert "[red]\\u202e" in text
    assert "[/b]" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"),
     (12000, "3 h 20 min"), (86400, "1 d"), (190000, "2 d 4 h")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_picture_says_what_is_known_and_not_zero_for_what_is_not() -> None:
    text = drawn(view.server("gpu-1", line()), ServerView("gpu-2", trouble="refused"))
    assert "93%" in text
    assert "13.7 of 22 GiB" in text
    assert "gpu-1 GPU 1: fault: the GPU is lost" in text
    assert "alerts: not known while gpu-2 is silent" in text
    lost = next(row for row in text.splitlines() if row.startswith("gpu-1") and "fault," in row)
    assert "0%" not in lost
    assert lost.count("?") == 3
    assert "refused" in text


@pytest.mark.parametrize(("height", "cut"), [(12, True), (500, False)])
def test_what_does_not_fit_a_window_is_counted_and_what_is_wrong_is_above_it(
    height: int, cut: bool
) -> None:
    views = [view.server(f"gpu-{n}", line() | {"alerts": []}) for n in range(4)]
    console = Console(width=200, height=height, record=True, file=io.StringIO())
    console.print(Fitted(frame(views, "made")), end="")
    rows = console.export_text().splitlines()
    assert (len(rows) == height, "more lines" in rows[-1]) == (cut, cut)
    assert any("NotWatched" in row for row in rows[:12])


@pytest.mark.parametrize(("share", "text"), [(None, "?"), (0.0, "░" * 10 + "   0%")])
def test_a_bar_of_nothing_is_not_a_bar_of_zero(share: float | None, text: str) -> None:
    assert bar(share) == text


def test_the_ring_keeps_one_point_in_ten_seconds_and_none_of_what_is_unknown() -> None:
    ring, told = Ring(), line()
    for second in range(25):
        ring.add(view.server("gpu-1", told | {"at": 1000.0 + second}))
    busy, lost = (gpu["uuid"] for gpu in told["agent"]["gpus"])
    points = ring.points(0)["utilization"]
    assert points[busy] == [[1000.0, 0.93], [1010.0, 0.93], [1020.0, 0.93]]
    assert points[lost] == []
    assert ring.points(1015)["utilization"][busy] == [[1020.0, 0.93]]


def test_charts_go_on_after_the_clock_was_set_back() -> None:
    ring, told = Ring(), line()
    for moment in (9000.0, 1000.0, 1001.0, 1010.0):
        ring.add(view.server("gpu-1", told | {"at": moment}))
    busy = told["agent"]["gpus"][0]["uuid"]
    assert [at for at, _ in ring.points(0)["power_watts"][busy]] == [9000.0, 1000.0, 1010.0]


def _broken(_query: dict[str, str]) -> Any:
    raise RuntimeError("a fault of ours")


@pytest.fixture
def dashboard() -> Iterator[web.Dashboard]:
    answers = {"now": lambda query: {"asked": query}, "broken": _broken,
               "odd": lambda _: {"power": float("nan")}}  # fmt: skip
    server = web.Dashboard(0, answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def get(url: str, **headers: str) -> tuple[int, str, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def test_the_page_and_its_parts_are_served(dashboard: web.Dashboard) -> None:
    code, text, headers = get(dashboard.url)
    assert code == 200
    assert "<title>gpuferry</title>" in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    for name in ("page.js", "page.css", "plotly.js"):
        assert get(dashboard.url + name)[0] == 200
    assert json.loads(get(dashboard.url + "now?hours=6")[1]) == {"asked": {"hours": "6"}}


@pytest.mark.parametrize("path", ["../web.py", "..%2fweb.py", "page/../../web.py", "none", "%00"])
def test_nothing_else_is_served(dashboard: web.Dashboard, path: str) -> None:
    assert get(dashboard.url + path)[0] == 404


@pytest.mark.parametrize("name", ["broken", "odd"])
def test_an_answer_that_fails_says_so_and_the_server_goes_on(
    dashboard: web.Dashboard, name: str
) -> None:
    code, text, _ = get(dashboard.url + name)
    assert code == 500
    assert "this failed: " in text
    assert get(dashboard.url + "now")[0] == 200


def test_a_browser_that_goes_away_is_no_news(
    dashboard: web.Dashboard, capfd: pytest.CaptureFixture[str]
) -> None:
    host = f"127.0.0.1:{dashboard.server_address[1]}"
    for _ in range(5):
        with socket.create_connection(dashboard.server_address[:2]) as client:
            # It is closed with a reset, in the midst of the largest answer.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            path = f"/{dashboard.secret}/plotly.js"
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert client.recv(10)
    assert get(dashboard.url + "now")[0] == 200
    dashboard.shutdown()
    assert capfd.readouterr().err == ""


def test_without_the_secret_or_under_another_name_nothing_is_told(dashboard: web.Dashboard) -> None:
    root = f"http://127.0.0.1:{dashboard.server_address[1]}/"
    for guess in ("", "now", "x/now", dashboard.secret[:-1] + "/now"):
        code, text, _ = get(root + guess)
        assert (code, "asked" in text) == (404, False)
    code, text, _ = get(dashboard.url + "now", Host="rebound.example")
    assert (code, "asked" in text) == (403, False)
    assert dashboard.server_address[0] == "127.0.0.1"


def test_what_runs_on_a_server_reads_this_machine() -> None:
    told = on_server.look()
    assert told["agent"] is None or isinstance(told["agent"], dict | str)
    assert view.server("here", told | {"alerts": None}).memory_bytes
    found = on_server.process(1)
    assert found is not None
    assert found["user"] == "root"
    assert on_server.process(2**22 + 1) is None


def test_the_agent_is_asked_with_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_token(tmp_path / "token")
    pages = {"/state": lambda: json.dumps(line()["agent"]).encode()}
    server = Server("127.0.0.1", 0, str(tmp_path / "token"), pages, print)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = {"listen": "127.0.0.1", "port": server.server_address[1]}
    (tmp_path / "agent.json").write_text(json.dumps(config | {"token_file": f"{tmp_path}/token"}))
    monkeypatch.setattr(on_server, "AGENT", str(tmp_path / "agent.json"))
    assert on_server.agent()["expected"] == 2
    (tmp_path / "token").write_text("another")
    server.shutdown()
    server.server_close()
    assert "the node agent does not answer" in on_server.agent()


def test_where_no_prometheus_and_no_alertmanager_runs_nothing_is_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_server, "PROMETHEUS", "http://127.0.0.1:9/")
    monkeypatch.setattr(on_server, "ALERTS", "http://127.0.0.1:9/")
    monkeypatch.setattr(on_server, "MONITORING", "/none")
    started = time.monotonic()
    assert on_server.history(6) is None
    assert on_server.alerts() is None
    monkeypatch.setattr(on_server, "MONITORING", "/")
    assert "Alertmanager does not answer" in on_server.alerts()
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "said", [b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b""]
)
def test_another_program_or_half_an_answer_is_no_answer(
    said: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(2):
                client, _ = server.accept()
                with client:
                    client.recv(4096)
                    client.sendall(said)

        threading.Thread(target=serve, daemon=True).start()
        port = server.getsockname()[1]
        (tmp_path / "token").write_text("x")
        config = {"listen": "127.0.0.1", "port": port, "token_file": f"{tmp_path}/token"}
        (tmp_path / "agent.json").write_text(json.dumps(config))
        monkeypatch.setattr(on_server, "AGENT", str(tmp_path / "agent.json"))
        monkeypatch.setattr(on_server, "ALERTS", f"http://127.0.0.1:{port}/")
        monkeypatch.setattr(on_server, "MONITORING", "/")
        assert "does not answer" in on_server.agent()
        assert "does not answer" in on_server.alerts()
