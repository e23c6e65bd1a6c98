"""Offers that cost less for an hour and were not chosen, each with the reason."""

from __future__ import annotations

import math

from gpuferry.audit.choose import eligible
from gpuferry.audit.choose.decision import FITS, NO, TIGHT, Candidate
from gpuferry.audit.choose.fleet import Fleet
from gpuferry.audit.choose.gpus import memory
from gpuferry.audit.choose.host import Host, host
from gpuferry.audit.choose.place import inside
from gpuferry.audit.choose.timing import run_seconds
from gpuferry.audit.estimate.need import estimate, floor_gib, layouts
from gpuferry.audit.estimate.terms import Estimate, Layout
from gpuferry.audit.offers.offer import MONTH_HOURS, Offer
from gpuferry.audit.read.units import show_duration, show_size
from gpuferry.audit.read.workload import Workload

SHOWN = 8


def cheaper(fleet: Fleet, w: Workload, chosen: Candidate) -> list[tuple[Offer, str]]:
    """Cheaper machines, the dearest of them first, one for each GPU and number."""
    limit = _hourly(fleet, chosen.offer) * chosen.servers
    found: list[tuple[Offer, str]] = []
    seen = set()
    for offer in sorted(fleet.offers, key=lambda o: -_hourly(fleet, o)):
        price = _hourly(fleet, offer)
        key = (offer.gpu.name, offer.gpus, offer.kind)
        if not price < limit or key in seen or offer.id == chosen.offer.id:
            continue
        seen.add(key)
        found.append((offer, reason(fleet, w, offer, chosen)))
        if len(found) == SHOWN:
            break
    return found


def _hourly(fleet: Fleet, offer: Offer) -> float:
    price = fleet.source.converted(offer.price, offer.currency)
    if price is None:
        return math.inf
    return price / MONTH_HOURS if offer.period == "month" else price


def reason(fleet: Fleet, w: Workload, offer: Offer, chosen: Candidate) -> str:
    """Why an offer was not chosen."""
    refusal = eligible.refusal(w, offer.gpu)
    if refusal:
        return refusal
    if offer.kind == "spot" and not w.flag("restartable"):
        return "spot, and the job is not said to be restartable"
    if offer.devices > w.number("max_gpus_per_server", 8):
        return "more GPUs than max_gpus_per_server"
    if offer.mig and offer.gpus > 1:
        return "MIG slices cannot work together"
    answers = [_way(fleet, w, offer, chosen, layout) for layout in layouts(w, offer.devices)]
    if not answers:
        return f"cannot be spread over {offer.devices} GPUs as declared"
    return max(answers, key=lambda a: a[0])[1]


def _way(
    fleet: Fleet, w: Workload, offer: Offer, chosen: Candidate, layout: Layout
) -> tuple[float, str]:
    """How far this layout comes (below 0: not into memory, by how much), and what stops it."""
    need = estimate(w, layout)
    if need is None:
        return -math.inf, "its need in this layout is not known"
    have = visible(w, offer)
    status, text = memory(need, have)
    if status == NO:
        return (
            -need.mid / have,
            f"{layout.said}: needs {text}" if layout.gpus > 1 else f"needs {text}",
        )
    lacking = _beside(offer, host(w, offer.devices, need))
    if lacking:
        return 1, lacking
    timing = run_seconds(w, fleet.speeds, layout)
    seconds = None
    if timing is not None:
        seconds = float(timing.mid[fleet.speeds.index[offer.gpu.name]]) / offer.share
    refused = _late_or_away(w, offer, seconds)
    if refused:
        return 2, refused
    unsure = _unsure(w, offer, chosen, need, layout)
    if unsure:
        return 3, unsure
    if seconds and chosen.seconds and seconds > chosen.seconds[1]:
        slower = seconds / chosen.seconds[1]
        return 4, f"cheaper for an hour, but {slower:.3g} times slower, so a run costs more"
    return 4, "costs more for a month, or has less beside the GPUs"


def _beside(offer: Offer, wants: Host) -> str:
    for have, want, name in (
        (offer.cpu_cores, wants.cores, "cores"),
        (offer.memory, wants.memory, "host memory"),
        (offer.disk, wants.disk, "disk"),
    ):
        if have and have < 0.8 * want:
            shown = [f"{v:.0f}" if name == "cores" else show_size(v) for v in (have, want)]
            return f"{shown[0]} {name}, {shown[1]} are needed"
    return ""


def _late_or_away(w: Workload, offer: Offer, seconds: float | None) -> str:
    deadline = w.number("deadline")
    if deadline and seconds and seconds > deadline:
        return f"takes {show_duration(seconds)}, the deadline is {show_duration(deadline)}"
    place = w.text("data_residency")
    if place and offer.region and not inside(place, offer.region):
        return f"in {offer.region}, the data has to stay in {place}"
    return ""


def _unsure(w: Workload, offer: Offer, chosen: Candidate, need: Estimate, layout: Layout) -> str:
    status, text = memory(need, visible(w, offer))
    if status == TIGHT and chosen.status == FITS:
        return f"tight: {text}"
    floor, said = floor_gib(w)
    if need.basis != "measured" and offer.gpu.vram_gb < floor - 0.5:
        return f"tight: {said}"
    if layout.tp > 2 and not offer.gpu.nvlink:
        return f"tight: tensor parallel over {offer.gpu.interconnect}"
    return ""


def visible(w: Workload, offer: Offer) -> float:
    """Memory of one GPU of an offer; ECC takes its share where it is wanted."""
    share = 15 / 16 if w.flag("needs_ecc") and offer.gpu.ecc_costs else 1
    return offer.visible_bytes * share
