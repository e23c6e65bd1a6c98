"""Talking to the person at the terminal."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuferry.errors import PrerequisiteMissing


def say_on_stderr(text: str) -> None:
    """A progress line; stdout belongs to results."""
    print(text, file=sys.stderr, flush=True)


def print_json(document: Any) -> None:
    """A result for machines."""
    print(json.dumps(document, indent=2, sort_keys=True))


def stdout_console() -> Console:
    """The console for results; a pipe gets room enough for whole lines."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 140)


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A result for people."""
    table = Table(title=title or None, box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # No markup: what servers and people named may hold square brackets.
        table.add_row(*map(Text, row))
    stdout_console().print(table)


def confirm(question: str, yes: bool) -> None:
    """Ask before something is lost.

    Raises:
        PrerequisiteMissing: nobody can answer, or the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise PrerequisiteMissing(f"{question} Nobody is there to answer; repeat with --yes.")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise PrerequisiteMissing("Nothing was changed.")
