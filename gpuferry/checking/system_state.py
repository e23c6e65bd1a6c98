"""Judge what systemd says about a whole server. Pure."""

from __future__ import annotations

from gpuferry.checking.node import Reading

FAILED = "systemctl list-units --failed --plain --no-legend"
# One paragraph per failed unit.
SHOW_FAILED = f"{FAILED} | cut -d' ' -f1 | xargs -r systemctl show -p Id -p Transient"


def judge_state(state: Reading, failed: Reading) -> tuple[bool, str, str]:
    """Return whether the server is up, what was measured, and the evidence.

    `failed` is what SHOW_FAILED said. A transient unit is a job that somebody started by
    systemd-run: that it failed says nothing of the server, so it is named and does not count. Those
    of gpuferry itself do.
    """
    word = state.output.strip() or state.trouble
    units = [
        Reading(0, text, "").properties for text in failed.output.split("\n\n") if text.strip()
    ]
    jobs = [unit["Id"] for unit in units if _is_job(unit)]
    others = [unit["Id"] for unit in units if not _is_job(unit)]
    evidence = f"failed units: {', '.join(others) or 'none'}"
    evidence += f"; failed jobs, which do not count: {', '.join(jobs)}" if jobs else ""
    only_jobs = word == "degraded" and bool(jobs) and not others
    return word == "running" or only_jobs, word, evidence


def _is_job(unit: dict[str, str]) -> bool:
    return unit.get("Transient") == "yes" and not unit["Id"].startswith("gpuferry")
