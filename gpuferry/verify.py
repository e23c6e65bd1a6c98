"""Verification as a step of a deployment, and for `ferry check`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuferry import inventory
from gpuferry.checking import run_checks
from gpuferry.errors import CheckFailed
from gpuferry.inventory import Entry
from gpuferry.verdict import Verdict, worst_exit_code


def verify(
    entries: Sequence[Entry],
    *,
    select: list[str] | None = None,
    on_verdict: Callable[[Verdict], None] | None = None,
) -> list[Verdict]:
    """Run the checks on all servers and return every verdict."""
    return run_checks(
        [entry.server for entry in entries],
        {entry.server.name: entry.expectations for entry in entries},
        select=select,
        on_verdict=on_verdict,
    )


def run(inputs: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    """Verify one server.

    Raises:
        CheckFailed: names the server and every failed check.
    """
    entry = inventory.parse(inputs["inventory"])
    verdicts = verify([entry], on_verdict=lambda v: say(f"{v.status}: {v.id}: {v.measured}"))
    if worst_exit_code(verdicts) != 0:
        failed = [v for v in verdicts if v.status in ("fail", "refused")]
        lines = [
            f"{v.id}: measured {v.measured}, expected {v.expected}. {v.next_step}" for v in failed
        ]
        raise CheckFailed(
            f"{entry.server.name}: {len(failed)} of {len(verdicts)} checks failed. "
            + " | ".join(lines)
        )
    return {"verdicts": [v.model_dump() for v in verdicts]}
