"""A plan as plain data for machines, with one verdict for every workload."""

from __future__ import annotations

import datetime as dt
from typing import Any

from gpuferry.audit.choose.decision import FITS, MOST, Candidate, Decision
from gpuferry.audit.choose.headroom import first_to_break
from gpuferry.audit.choose.plan import Plan
from gpuferry.audit.choose.servers import Server
from gpuferry.audit.estimate.terms import Estimate
from gpuferry.audit.offers.offer import Offer
from gpuferry.audit.read.units import show_size
from gpuferry.verdict import Verdict


def verdict(decision: Decision) -> Verdict:
    """fits is a pass, tight is not measured, no offer is a refusal."""
    w, chosen = decision.workload, decision.chosen
    if chosen is None:
        return Verdict(
            id=f"audit.{w.id}", server="", status="refused", measured=decision.refused,
            expected="an offer that fits", severity="major",
            next_step="add offers with the GPUs that fit, loosen the deadline, or change the job",
        )  # fmt: skip
    share = f"{chosen.need.said} of {show_size(chosen.offer.visible_bytes)} on one GPU"
    if chosen.status == FITS:
        return Verdict(
            id=f"audit.{w.id}", server=chosen.offer.id, status="pass", measured=share,
            expected=f"at most {MOST:.0%}, upper end included", severity="info",
            evidence=decision.time_how,
        )  # fmt: skip
    return Verdict(
        id=f"audit.{w.id}", server=chosen.offer.id, status="not_measured", measured=share,
        expected=f"at most {MOST:.0%}, upper end included", severity="minor",
        evidence="; ".join(decision.notes),
        next_step="run two steps on this GPU before renting for longer, and write peak_vram "
        "as measured",
    )  # fmt: skip


def document(plan: Plan) -> dict[str, Any]:
    """Everything, sizes in bytes, times in seconds, money in the plan's currency."""
    return {
        "ok": all(d.chosen for d in plan.decisions),
        "date": str(dt.datetime.now(dt.UTC).date()),
        "currency": plan.offers.currency,
        "offers": plan.offers.source,
        "month_cost": plan.month_cost,
        "notes": plan.notes,
        "servers": [_server(server) for server in plan.servers],
        "workloads": [_decision(decision) for decision in plan.decisions],
        "verdicts": [verdict(d).model_dump(mode="json") for d in plan.decisions],
    }


def _server(server: Server) -> dict[str, Any]:
    return {
        "name": server.name,
        "offer": _offer(server.offer),
        "count": server.count,
        "workloads": [d.workload.id for d in server.workloads],
        "hours": round(server.hours, 1),
        "month_cost": server.month_cost,
        "needs": {"cores": server.cores, "memory": server.memory, "disk": server.disk},
        "advice": server.advice,
    }


def _offer(offer: Offer) -> dict[str, Any]:
    return {
        "id": offer.id, "provider": offer.provider, "gpu": offer.gpu.name, "gpus": offer.gpus,
        "mig": offer.mig, "kind": offer.kind, "price": offer.price, "currency": offer.currency,
        "period": offer.period, "date": str(offer.date) if offer.date else None,
        "source": offer.source, "price_note": offer.price_note,
    }  # fmt: skip


def _estimate(need: Estimate) -> dict[str, Any]:
    return {
        "layout": need.layout.said, "basis": need.basis, "low": need.low, "mid": need.mid,
        "high": need.high, "terms": [term._asdict() for term in need.terms],
        "notes": list(need.notes),
    }  # fmt: skip


def _candidate(c: Candidate) -> dict[str, Any]:
    return {
        "offer": _offer(c.offer), "servers": c.servers, "status": c.word,
        "need": _estimate(c.need), "seconds": c.seconds, "month_hours": c.month_hours,
        "month_cost": c.month_cost, "run_cost": c.run_cost, "host": c.host._asdict(),
        "reasons": list(c.reasons),
    }  # fmt: skip


def _decision(d: Decision) -> dict[str, Any]:
    return {
        "id": d.workload.id,
        "kind": d.workload.kind,
        "status": d.status,
        "refused": d.refused,
        "need_on_one_gpu": _estimate(d.need) if d.need else None,
        "chosen": _candidate(d.chosen) if d.chosen else None,
        "others": [_candidate(c) for c in d.others],
        "first_to_break_at_50_percent": first_to_break(d.limits),
        "over_rented": d.over_rented,
        "time": d.time_how,
        "notes": d.notes,
        "gpus": [vars(fit) for fit in d.gpus],
    }
