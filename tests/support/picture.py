"""Make the README's picture from what a real `./ferry up` printed, read from stdin."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

_STYLES = [
    (r"^\s*\d+ s ", "dim"),
    (r"^ok\b", "green"),
    (r"^not measured\b", "yellow"),
    (r"\bFAILED\b", "bold red"),
    (r"^\$ .*$", "bold"),
    (r"^Stack .* is up.*$", "bold green"),
]


def main() -> None:
    """Read a run from stdin, write docs/ferry-up.svg."""
    console = Console(record=True, width=140, file=io.StringIO(), force_terminal=True)
    for line in ["$ ./ferry up", *sys.stdin.read().splitlines()]:
        text = Text(line.rstrip())
        for pattern, style in _STYLES:
            text.highlight_regex(re.compile(pattern), style)
        console.print(text, soft_wrap=True, overflow="crop", no_wrap=True)
    target = Path(__file__).parents[2] / "docs" / "ferry-up.svg"
    svg = console.export_svg(title="gpuferry", theme=MONOKAI)
    # The page must not load fonts from elsewhere; any monospace font will do.
    target.write_text(re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
