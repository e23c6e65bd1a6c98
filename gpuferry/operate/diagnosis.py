"""doctor: show what is here and what is not."""

from __future__ import annotations

import sys
from dataclasses import asdict

from gpuferry.operate.console import print_json, print_table
from gpuferry.prepare.prerequisites import survey


def show(*, as_json: bool) -> None:
    """Print every prerequisite; exits 2 when one is missing, though `up` brings most of them."""
    found = survey()
    if as_json:
        print_json(
            {
                "ok": all(p.found for p in found),
                "prerequisites": [{**asdict(p), "ok": bool(p.found)} for p in found],
            }
        )
    else:
        rows = [
            [
                "found" if p.found else "missing",
                p.name,
                p.found or f"get it: {p.remedy}",
                "all" if len(p.providers) > 1 else f"provider {p.providers[0]}",
            ]
            for p in found
        ]
        print_table("", ["state", "what", "where / how to get it", "needed for"], rows)
    if not all(p.found for p in found):
        sys.exit(2)
