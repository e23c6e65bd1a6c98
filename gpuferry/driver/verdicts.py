"""A plan as a verdict, the one form in which everything that judges answers."""

from __future__ import annotations

from gpuferry.driver.decision import Plan
from gpuferry.verdict import Verdict


def verdict_of(plan: Plan, server: str) -> Verdict:
    """`refused` with its options, or `pass`; no GPU at all is `not_measured`, never a pass."""
    what = " ".join(str(p) for p in (plan.source, plan.version or plan.branch, plan.flavour) if p)
    if plan.refusal:
        return Verdict(
            id="driver.plan",
            server=server,
            status="refused",
            measured=plan.refusal.sentence,
            expected="a driver that fits the GPUs, the kernel and the wish",
            severity="critical",
            evidence=plan.refusal.reason,
            next_step=" or: ".join(plan.refusal.options),
        )
    return Verdict(
        id="driver.plan",
        server=server,
        status="not_measured" if plan.action == "none" else "pass",
        measured=f"{plan.action} {what}".strip(),
        expected="a driver that fits the GPUs, the kernel and the wish",
        severity="info",
        evidence="; ".join(plan.reasons),
        next_step="",
    )
