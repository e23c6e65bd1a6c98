"""The whole plan: every workload decided, the servers they share, and what they cost."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from gpuferry.audit.choose import cluster, gpus, headroom, parallel, rejected, remarks
from gpuferry.audit.choose.decision import Decision
from gpuferry.audit.choose.fleet import KEPT, Fleet
from gpuferry.audit.choose.servers import Server, plan_servers
from gpuferry.audit.offers.load import Offers
from gpuferry.audit.read.workload import Workload

# Above this only the chosen candidate of a workload is described until somebody asks.
DESCRIBED = 1000


@dataclass
class Plan:
    """Decisions in the table's order, and the servers that carry them."""

    decisions: list[Decision]
    servers: list[Server]
    offers: Offers
    fleet: Fleet
    notes: list[str] = field(default_factory=list)

    @property
    def month_cost(self) -> float | None:
        """Sum over servers, None when one has no price."""
        costs = [s.month_cost for s in self.servers]
        return None if any(c is None for c in costs) else sum(c for c in costs if c is not None)


def make_plan(workloads: list[Workload], offers: Offers) -> Plan:
    """Decide about all workloads; long tables on all processors."""
    fleet = Fleet(offers)
    kept = 1 if len(workloads) > DESCRIBED else KEPT
    processes = len(os.sched_getaffinity(0)) if len(workloads) > DESCRIBED else 1
    decisions = parallel.split(lambda w: decide(fleet, w, kept), workloads, fleet, processes)
    servers = plan_servers(fleet, decisions, fleet.places)
    for server in servers:
        for decision in server.workloads:
            decision.notes += remarks.moved(decision, server)
    plan = Plan(decisions, servers, offers, fleet)
    plan.notes = _notes(plan)
    return plan


def decide(fleet: Fleet, w: Workload, kept: int) -> Decision:
    """One workload: the cheapest server that fits, else a cluster, else the reason."""
    decision = fleet.decide(w, kept)
    if decision.chosen is None and decision.need is not None:
        found = cluster.candidates(fleet, w)
        if found:
            decision.chosen, decision.others = found[0], found[1:]
    chosen = decision.chosen
    need = chosen.need if chosen else decision.need
    decision.notes = [*w.notes, *(need.notes if need else ())]
    if chosen is not None:
        decision.limits = headroom.limits(w, chosen)
        decision.over_rented = headroom.over_rented(w, chosen)
        decision.notes += remarks.of(decision)
    elif decision.need is not None:
        decision.refused = _why_none(decision, fleet)
    return decision


def explain(decision: Decision, fleet: Fleet) -> Decision:
    """Add what only a report shows: every GPU with its reason, rejected offers, ways to grow."""
    w = decision.workload
    decision.gpus = gpus.fits(w)
    if decision.chosen is not None:
        decision.grow = headroom.growth(decision.chosen, fleet.offers)
        decision.cheaper = rejected.cheaper(fleet, w, decision.chosen)
        decision.plotted = fleet.decide(w, kept=60)
    return decision


def _why_none(decision: Decision, fleet: Fleet) -> str:
    w = decision.workload
    fitting, why = gpus.why_no_offer(w, fleet.refusals(w))
    assert decision.need is not None
    need = f"it needs {decision.need.said} on one GPU"
    if not fitting:
        return f"{need}; no GPU of the catalogue fits, 1 to 8 in a server: {why}"
    deadline = w.number("deadline")
    late = " within its deadline" if deadline else ""
    names = ", ".join(fitting[:4]) + (", ..." if len(fitting) > 4 else "")
    return f"{need}; no offer does{late} with its cores, memory and disk. GPUs that fit: {names}"


def _notes(plan: Plan) -> list[str]:
    offers = plan.offers
    notes = []
    stale = [o for o in offers.offers if o.price is not None and "old" in o.price_note]
    if stale:
        notes.append(f"{len(stale)} of {len(offers.offers)} prices are older than 90 days")
    foreign = {o.currency for o in offers.offers if o.price is not None} - {offers.currency}
    notes += [
        f"prices in {currency} are not compared: rates has no {currency}"
        for currency in sorted(foreign - set(offers.rates))
    ]
    if not any(o.price is not None for o in offers.offers):
        notes.append("no prices: the smallest machine that fits is shown. Give --offers FILE")
    return notes
