"""The whole plan: every workload decided, the servers they share, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuferry.audit.choose import cluster, gpus, headroom, rejected
from gpuferry.audit.choose.decision import FITS, TIGHT, Decision
from gpuferry.audit.choose.fleet import Fleet
from gpuferry.audit.choose.servers import Server, plan_servers
from gpuferry.audit.estimate.need import floor_gib
from gpuferry.audit.offers.load import Offers
from gpuferry.audit.read.units import show_size
from gpuferry.audit.read.workload import Workload


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
    """Decide about all workloads."""
    fleet = Fleet(offers)
    decisions = [_decide(fleet, w) for w in workloads]
    servers = plan_servers(fleet, decisions, fleet.places)
    plan = Plan(decisions, servers, offers, fleet)
    plan.notes = _notes(plan)
    return plan


def _decide(fleet: Fleet, w: Workload) -> Decision:
    decision = fleet.decide(w)
    if decision.chosen is None and decision.need is not None:
        found = cluster.candidates(fleet, w)
        if found:
            decision.chosen, decision.others = found[0], found[1:]
    decision.notes = [*w.notes, *(decision.need.notes if decision.need else ())]
    chosen = decision.chosen
    if chosen is not None:
        decision.limits = headroom.limits(w, chosen)
        decision.over_rented = headroom.over_rented(w, chosen)
        decision.notes += _remarks(w, decision)
    elif decision.need is not None:
        decision.refused = _why_none(fleet, decision)
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


def _why_none(fleet: Fleet, decision: Decision) -> str:
    w = decision.workload
    fitting = [fit.name for fit in gpus.fits(w) if fit.status == FITS]
    assert decision.need is not None
    need = f"it needs {decision.need.said} on one GPU"
    if not fitting:
        return f"{need}; no GPU of the catalogue fits, with 1 to 8 in a server"
    deadline = w.number("deadline")
    late = " within its deadline" if deadline else ""
    names = ", ".join(fitting[:4]) + (", ..." if len(fitting) > 4 else "")
    return f"{need}; no offer does{late} with its cores, memory and disk. GPUs that fit: {names}"


def _remarks(w: Workload, decision: Decision) -> list[str]:
    chosen = decision.chosen
    assert chosen is not None
    offer, notes = chosen.offer, list(chosen.reasons)
    if chosen.layout.changed:
        notes.append(f"assumes {chosen.layout.changed}: the job has to be changed for it")
    if chosen.layout.tp > 2 and not offer.gpu.nvlink:
        notes.append(f"tensor parallel over {offer.gpu.interconnect}: try it before you rent more")
    floor, said = floor_gib(w)
    if decision.need and decision.need.basis != "measured" and offer.gpu.vram_gb < floor - 0.5:
        notes.append(f"below the floor: {said}; measure a run first")
    if w.has("deadline") and chosen.seconds is None:
        notes.append("deadline cannot be judged: nothing says how much work a run is")
    if chosen.status == TIGHT and chosen.seconds and w.has("deadline"):
        if chosen.seconds[2] > w.number("deadline") >= chosen.seconds[1]:
            notes.append("the deadline holds at the likely speed, not at the slow end")
    missing = [n for n, v in (("cores", offer.cpu_cores), ("memory", offer.memory),
                              ("disk", offer.disk)) if not v]  # fmt: skip
    if missing and offer.provider:
        notes.append(f"the offer does not state {', '.join(missing)}: ask for the figures below")
    total = offer.devices * offer.visible_bytes
    if offer.memory and offer.memory < total * 0.98:
        text = f"{show_size(offer.memory)} host memory for {show_size(total)} GPU memory"
        notes.append(f"{text}: F10 wants as much")
    if w.has("data_residency") and not offer.region:
        notes.append(f"data has to stay in {w.text('data_residency')}; the offer names no region")
    if w.flag("licence_bound_to_host"):
        notes.append("its licence is tied to the machine: have it moved before the cutover")
    if 0 < w.number("tolerable_downtime", 1e9) < 900 and chosen.servers == 1:
        notes.append("may be away for minutes only: one server is not enough, plan a spare")
    if offer.kind == "spot":
        every = w.number("checkpoint_every")
        text = "can be taken away at any time"
        notes.append(f"spot: {text}" + ("" if every else "; checkpoint_every is not given"))
    if offer.price_note and offer.provider:
        notes.append(f"{offer.id}: {offer.price_note}")
    grows = w.number("growth_12m")
    if grows and decision.limits and decision.limits[0].growth < grows:
        first = decision.limits[0]
        notes.append(f"expected growth of {grows:g} % a year uses up {first.name} first")
    return notes


def _notes(plan: Plan) -> list[str]:
    offers = plan.offers
    notes = []
    stale = [o for o in offers.offers if o.price is not None and "old" in o.price_note]
    if stale:
        notes.append(f"{len(stale)} of {len(offers.offers)} prices are older than 90 days")
    foreign = {o.currency for o in offers.offers if o.price is not None} - {offers.currency}
    for currency in sorted(foreign - set(offers.rates)):
        notes.append(f"prices in {currency} are not compared: rates has no {currency}")
    if not any(o.price is not None for o in offers.offers):
        notes.append("no prices: the smallest machine that fits is shown. Give --offers FILE")
    return notes
