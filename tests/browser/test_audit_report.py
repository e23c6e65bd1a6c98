"""The audit's report in a real browser: everything is drawn, and nothing is wider than the page."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpuferry.audit.report.page import page
from tests.bench import audit_examples

# Opens every workload, draws it, and leaves what it measured in the page.
PROBE = """
<script>
window.addEventListener("load", () => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  draw(document);
  setTimeout(() => {
    const seen = (element) => element.getBoundingClientRect().width > 0;
    const charts = [...document.querySelectorAll(".chart")];
    const root = document.documentElement;
    const found = {
      page: [root.scrollWidth, root.clientWidth],
      charts: charts.map((c) =>
        [c.scrollWidth, c.clientWidth, c.querySelectorAll(".main-svg").length]),
      cut: charts.flatMap((c) => [...c.querySelectorAll("text")].filter(seen).filter((t) => {
        const inner = t.getBoundingClientRect(), outer = c.getBoundingClientRect();
        return inner.left < outer.left - 1 || inner.right > outer.right + 1;
      }).map((t) => t.textContent)),
      background: getComputedStyle(document.body).backgroundColor,
      overlap: charts.flatMap((c) => {
        const boxes = [...c.querySelectorAll(".legend text, .xtitle")].filter(seen)
          .map((t) => [t.textContent, t.getBoundingClientRect()]);
        return boxes.flatMap(([name, a], i) => boxes.slice(i + 1).filter(([, b]) =>
          a.left < b.right - 1 && b.left < a.right - 1 &&
          a.top < b.bottom - 1 && b.top < a.bottom - 1
        ).map(([other]) => name + " / " + other));
      }),
    };
    const out = document.createElement("pre");
    out.id = "found";
    out.textContent = JSON.stringify(found);
    document.body.append(out);
  }, 500);
});
</script>
"""


def draw(text: str, width: int, folder: Path) -> dict[str, Any]:
    """What the probe found in the page at a width, nothing having been written to the console."""
    path = folder / "report.html"
    path.write_text(text.replace("</body>", PROBE + "</body>"))
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},1000",
         "--virtual-time-budget=20000", "--enable-logging=stderr",
         f"--user-data-dir={folder / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, check=True, timeout=180,
    )  # fmt: skip
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not console, console
    match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert match, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(html.unescape(match.group(1)))
    return found


@pytest.mark.parametrize("width", [1280, 800])
@pytest.mark.parametrize("name", ["llm-finetune", "cfd-md", "blender-farm"])
def test_everything_is_drawn_and_nothing_is_wider_than_the_page(
    name: str, width: int, tmp_path: Path
) -> None:
    plan = audit_examples.plan(name)
    found = draw(page(plan, "Audit"), width, tmp_path)
    assert found["page"][0] <= found["page"][1], found
    placed = [d for d in plan.decisions if d.chosen]
    assert len(found["charts"]) >= 1 + len(placed)
    assert all(svgs >= 1 and wide <= there for wide, there, svgs in found["charts"]), found
    assert found["cut"] == []
    assert found["overlap"] == []
    assert found["background"] == "rgb(244, 246, 248)"
