"""Verdicts as a table for people and as JSON for machines (JUnit: `gpuferry.verdict`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpuferry.verdict import Verdict, worst_exit_code

# The words carry the meaning; colours only help.
_WORDS = {
    "pass": ("ok", "green"),
    "fail": ("FAILED", "bold red"),
    "refused": ("REFUSED", "bold red"),
    "not_measured": ("not measured", "yellow"),
}
_LONGEST = 300


def as_table(verdicts: Sequence[Verdict], *, explain: bool = False) -> RenderableType:
    """Return a table, then evidence and next step of every failed check, then one summary line.

    `explain` adds the evidence of those that passed, such as waivers.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for name in ("status", "server", "check", "measured", "expected"):
        table.add_column(name, overflow="fold", no_wrap=name in ("status", "check"))
    for verdict in verdicts:
        word, style = _WORDS[verdict.status]
        # Text, not markup: measured values may hold square brackets.
        cells = (verdict.server, verdict.id, _short(verdict.measured), _short(verdict.expected))
        table.add_row(Text(word, style=style), *map(Text, cells))
    failed = [v for v in verdicts if v.status in ("fail", "refused")]
    notes = [v for v in verdicts if explain and v.status == "pass" and v.evidence]
    return Group(
        table,
        *(_note(verdict) for verdict in notes),
        *(_details(verdict) for verdict in failed),
        Text("\n" + summary_line(verdicts)),
    )


def as_json(verdicts: Sequence[Verdict]) -> str:
    """Return `{"ok", "summary", "verdicts"}`; `ok` is what the exit code says as well."""
    document = {
        "ok": worst_exit_code(verdicts) == 0,
        "summary": {"total": len(verdicts), **_counts(verdicts)},
        "verdicts": [verdict.model_dump(mode="json") for verdict in verdicts],
    }
    return json.dumps(document, indent=2)


def summary_line(verdicts: Sequence[Verdict]) -> str:
    """Return the result in one line, the failures first."""
    if not verdicts:
        return "nothing was checked: that is a failure"
    counts = _counts(verdicts)
    servers = len({verdict.server for verdict in verdicts})
    parts = [f"{counts['fail'] + counts['refused']} failed", f"{counts['pass']} ok"]
    if counts["not_measured"]:
        parts.append(f"{counts['not_measured']} not measured")
    return f"{', '.join(parts)} on {servers} server{'s' if servers != 1 else ''}"


def _counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    seen = Counter(verdict.status for verdict in verdicts)
    return {"pass": seen["pass"], "fail": seen["fail"]} | {
        "not_measured": seen["not_measured"],
        "refused": seen["refused"],
    }


def _note(verdict: Verdict) -> Text:
    return Text.assemble((f"\n{verdict.server} {verdict.id}\n", "bold"), f"  {verdict.evidence}")


def _details(verdict: Verdict) -> Text:
    text = Text(f"\n{verdict.server} {verdict.id} ({verdict.severity})\n", style="bold")
    if verdict.evidence:
        text.append(f"  evidence: {_short(verdict.evidence)}\n", style="not bold")
    text.append(f"  next step: {verdict.next_step or 'none known'}", style="not bold")
    return text


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
