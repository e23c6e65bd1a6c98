"""The dashboard in a real browser: everything is drawn, nothing is wider than the page."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuferry.watch import view, web
from gpuferry.watch.on_server import SERIES

LINES = Path(__file__).parents[1] / "fixtures" / "watch"
ALERT = {
    "labels": {"alertname": "GpuLost", "server": "gpu-1", "severity": "critical"},
    "annotations": {"summary": "GPU 1 is lost <b>& gone</b>", "next_step": "drain gpu-1"},
    "startsAt": "2026-01-01T00:00:00Z",
}
VERDICTS = [
    {"server": "gpu-1", "id": "gpu.count", "status": "fail", "measured": "1 of 2",
     "next_step": "x"},
    {"server": "gpu-1", "id": "base.time", "status": "pass", "measured": "ok", "next_step": ""},
    {"server": "web-1", "id": "base.users", "status": "not_measured", "measured": "none declared",
     "next_step": ""},
]  # fmt: skip
# Runs in the page as a part of its own script, so that its policy holds.
PROBE = """
setTimeout(() => {
  const root = document.documentElement;
  const made = document.createElement("pre");
  made.id = "found";
  made.textContent = JSON.stringify({
    page: [root.scrollWidth, root.clientWidth],
    charts: [...document.querySelectorAll(".chart")].map((c) =>
      [c.scrollWidth, c.clientWidth, c.querySelectorAll(".main-svg").length,
       c.querySelectorAll(".scatterlayer .trace").length]),
    text: document.body.innerText,
    bold: document.querySelectorAll("#alerts b").length,
  });
  document.body.append(made);
}, 6000);
"""


def now(_query: dict[str, str]) -> dict[str, Any]:
    lines = {p.stem: json.loads(p.read_text()) for p in sorted(LINES.glob("*.json"))}
    lines["gpu-1"]["alerts"] = [ALERT]
    views = [view.server(name, line) for name, line in lines.items()]
    views.append(view.ServerView("gpu-2", trouble="silent for 2 min: connection refused"))
    servers = [dataclasses.asdict(found) for found in views]
    checks = {"verdicts": VERDICTS, "trouble": "", "age_seconds": 60.0}
    return {"stack": "made", "servers": servers, "checks": checks}


def history(query: dict[str, str]) -> dict[str, Any]:
    """Made curves for both recorded GPUs."""
    end = time.time()
    start = end - float(query["hours"]) * 3600
    gpus = json.loads((LINES / "gpu-1.json").read_text())["agent"]["gpus"]
    names = {g["uuid"]: f"gpu-1 GPU {g['index']}" for g in gpus}
    scales = {"utilization": 1.0, "memory_used_bytes": 2e10, "power_watts": 70.0}
    times = [start + (end - start) * step / 200 for step in range(200)]
    curve = [[at, 0.55 + 0.4 * math.sin(step / 9)] for step, at in enumerate(times)]
    points = {
        reading: {g["uuid"]: [[at, v * scales.get(reading, 80.0)] for at, v in curve] for g in gpus}
        for reading in SERIES
    }
    return {"start": start, "end": end, "source": "Made.", "points": points, "names": names}


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    page = tmp_path / "page"
    shutil.copytree(web._PAGE, page)
    script = page / "page.js"
    script.write_text(script.read_text() + PROBE)
    monkeypatch.setattr(web, "_PAGE", page)
    server = web.Dashboard(0, {"now": now, "history": history})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.url
    server.shutdown()
    server.server_close()


def browse(url: str, width: int, folder: Path, *wish: str) -> str:
    """What the browser prints, nothing having been written to its console."""
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         f"--window-size={width},1300", "--virtual-time-budget=15000", "--enable-logging=stderr",
         f"--user-data-dir={folder / 'profile'}", *wish, url],
        capture_output=True, text=True, check=True, timeout=180,
    )  # fmt: skip
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not console, console
    return done.stdout


@pytest.mark.parametrize("width", [1280, 720])
def test_everything_is_drawn_and_nothing_is_wider_than_the_page(
    url: str, width: int, tmp_path: Path
) -> None:
    printed = browse(url, width, tmp_path, "--dump-dom")
    match = re.search(r'<pre id="found">(.*?)</pre>', printed, re.S)
    assert match, printed[-2000:]
    found = json.loads(html.unescape(match.group(1)))
    assert found["page"][0] <= found["page"][1], found["page"]
    assert len(found["charts"]) == 4
    for wide, there, svgs, lines in found["charts"]:
        assert wide <= there
        assert svgs >= 1
        assert lines == 2
    for text in (
        "gpu-1", "93 %", "13.7 of 22 GiB", "fault", "gpusim (ferry", "silent for 2 min",
        "GpuLost gpu-1", "GPU 1 is lost <b>& gone</b> Next: drain gpu-1", "1 fail, 1 not measured",
        "gpu.count", "gpu-1 GPU 1",
    ):  # fmt: skip
        assert text in found["text"], text
    assert "base.users" not in found["text"], "only what failed, unless all is asked for"
    assert found["bold"] == 0, "texts of servers are no markup"


def test_a_picture_is_kept(url: str, tmp_path: Path) -> None:
    """For who looks at what a test run left; GPUFERRY_PICTURES names another folder."""
    folder = Path(os.environ.get("GPUFERRY_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    browse(url, 1280, tmp_path, f"--screenshot={folder / 'dashboard.png'}")
    assert (folder / "dashboard.png").read_bytes()[:4] == b"\x89PNG"
    assert (folder / "dashboard.png").stat().st_size > 50_000
