"""Verification as a step of a deployment, and for `ferry check`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from gpuferry import inventory
from gpuferry.checking import run_checks
from gpuferry.errors import CheckFailed, ServerUnreachable
from gpuferry.inventory import Entry
from gpuferry.nodes.session import wait_for_ssh
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
    """Verify one server, which may just have been started.

    Raises:
        CheckFailed: names the server and every failed check.
    """
    entry = inventory.parse(inputs["inventory"])
    with contextlib.suppress(ServerUnreachable):  # the verdict server.reachable tells it
        wait_for_ssh(entry.server, entry.ssh_wait_seconds, on_progress=say)
    verdicts = verify([entry], on_verdict=lambda v: say(f"{v.status}: {v.id}: {v.measured}"))
    if worst_exit_code(verdicts) != 0:
        raise CheckFailed(failure(entry.server.name, verdicts))
    return {"verdicts": [v.model_dump() for v in verdicts]}


def failure(server: str, verdicts: Sequence[Verdict]) -> str:
    """What a deployment says about a server whose checks failed, each with its evidence."""
    failed = [v for v in verdicts if v.status in ("fail", "refused")]
    lines = [f"{server}: {len(failed)} of {len(verdicts)} checks failed."]
    for verdict in failed:
        evidence = f" ({verdict.evidence})" if verdict.evidence else ""
        step = f". Next: {verdict.next_step}" if verdict.next_step else ""
        judged = f"measured {verdict.measured}{evidence}, expected {verdict.expected}"
        lines.append(f"{verdict.id}: {judged}{step}")
    return "\n".join(lines)
