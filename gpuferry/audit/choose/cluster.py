"""Several servers, where one does not do: only if the network between them carries it (F9)."""

from __future__ import annotations

import math

from gpuferry.audit.choose.decision import FIT, FITS, MOST, NO, TIGHT, Candidate
from gpuferry.audit.choose.fleet import Fleet
from gpuferry.audit.choose.host import Host, host
from gpuferry.audit.choose.timing import run_seconds
from gpuferry.audit.estimate import states, work
from gpuferry.audit.estimate.need import estimate
from gpuferry.audit.estimate.terms import Layout
from gpuferry.audit.estimate.transformer import shape_of
from gpuferry.audit.offers.offer import MONTH_HOURS, Offer
from gpuferry.audit.read.workload import Workload

SIZES = (2, 4, 8, 16, 32, 64)


def candidates(fleet: Fleet, w: Workload) -> list[Candidate]:
    """The cheapest clusters that would do, at most three."""
    found = []
    allowed = fleet.allowed(w)
    for index, offer in enumerate(fleet.offers):
        if offer.mig or not allowed[fleet.gpu[index]] or offer.max_servers < 2:
            continue
        if offer.kind == "spot" and not w.flag("restartable"):
            continue
        if offer.devices > w.number("max_gpus_per_server", 8):
            continue
        for servers in SIZES:
            if servers > offer.max_servers:
                break
            candidate = _candidate(fleet, w, offer, servers)
            if candidate is not None:
                found.append(candidate)
                break
    return sorted(found, key=_rank)[:3]


def _rank(c: Candidate) -> tuple[int, float, int]:
    cost = math.inf if c.month_cost is None else c.month_cost
    return -c.status, cost, c.servers * c.offer.devices


def layout_of(w: Workload, gpus: int) -> Layout | None:
    """How a run goes over servers; None where it cannot."""
    if w.training:
        tp, pp = int(w.number("tp", 1)), int(w.number("pp", 1))
        zero = int(w.number("zero")) if w.has("zero") else 3 if w.family == "llm" else 0
        changed = "" if w.has("zero") or not zero else "FSDP (ZeRO-3) over all servers"
        return Layout(gpus, tp, pp, zero, changed) if gpus % (tp * pp) == 0 else None
    if w.kind in ("render", "sim", "etl") and w.splits:
        return Layout(gpus, parts=w.kind == "sim")
    return None  # serving across servers is slower than a larger GPU


def _candidate(fleet: Fleet, w: Workload, offer: Offer, servers: int) -> Candidate | None:
    gpus = offer.devices * servers
    layout = layout_of(w, gpus)
    need = estimate(w, layout) if layout else None
    if layout is None or need is None or need.mid > MOST * offer.visible_bytes:
        return None
    fits = need.mid <= FIT * offer.visible_bytes and need.high <= MOST * offer.visible_bytes
    status = FITS if fits else TIGHT
    timing = run_seconds(w, fleet.speeds, layout)
    at = fleet.speeds.index[offer.gpu.name]
    seconds = None
    if timing:
        seconds = (float(timing.quick[at]), float(timing.mid[at]), float(timing.slow[at]))
    linked, reason = network(w, offer, layout, servers)
    wants = host(w, offer.devices, need)
    status = min(status, linked, _in_time(w, seconds), _beside(offer, wants))
    if status == NO:
        return None
    hours = MONTH_HOURS
    if seconds and w.has("runs_per_month"):
        hours = seconds[1] / 3600 * w.number("runs_per_month")
    month = fleet.source.converted(offer.month_cost(hours), offer.currency)
    run = None
    if month is not None and seconds and offer.period == "hour":
        hourly = fleet.source.converted(offer.price, offer.currency) or 0.0
        run = hourly * servers * seconds[1] / 3600
    total = None if month is None else month * servers
    reasons = (f"{servers} servers: {reason}",)
    return Candidate(
        offer, servers, status, layout, need, wants, seconds, hours, total, run, reasons
    )


def _in_time(w: Workload, seconds: tuple[float, float, float] | None) -> int:
    deadline = w.number("deadline")
    if not deadline or seconds is None:
        return FITS
    return int(seconds[1] <= deadline) + int(seconds[2] <= deadline)


def _beside(offer: Offer, wants: Host) -> int:
    pairs = ((offer.cpu_cores, wants.cores), (offer.memory, wants.memory))
    least = min((have / want for have, want in pairs if have), default=1.0)
    return FITS if least >= 1 else TIGHT if least >= 0.8 else NO


def network(w: Workload, offer: Offer, layout: Layout, servers: int) -> tuple[int, str]:
    """F9: whether the link between servers hides behind computing; the reason with its figures."""
    if not w.training:
        return (FITS, "frames are independent") if w.kind == "render" else (
            TIGHT, "the exchange between parts is not known: try two servers first"
        )  # fmt: skip
    shape = shape_of(w)
    params = states.trained(w, shape)
    tokens = w.number("batch", 1) * (w.number("seq", 2048) if w.family == "llm" else 1)
    if w.family == "llm":
        flops = 6 * shape.active * tokens
    elif w.has("flops_per_sample"):
        flops = 3 * w.number("flops_per_sample") * tokens
    else:
        return TIGHT, "FLOPs of a step are not known, so F9 cannot be judged"
    peak = offer.gpu.tflops(states.precision_of(w)) or offer.gpu.fp16_tflops
    compute = flops / (peak * 1e12 * 0.4)
    # ZeRO-3 also gathers weights twice: 1.5 times the traffic (ZeRO, section 7.2.2).
    sent = work.all_reduce_bytes(params * 2, servers) * (1.5 if layout.zero >= 3 else 1)
    needed = work.link_needed(sent, compute)
    text = (
        f"F9: {sent / 1e9:.3g} GB a step within {compute:.3g} s of computing needs "
        f"{needed * 8 / 1e9:.3g} Gbit/s one way"
    )
    if not offer.network:
        return TIGHT, f"{text}; the offer states none"
    have = offer.network * 8 / 1e9
    if offer.network >= needed:
        return FITS, f"{text}, {have:.3g} Gbit/s is there"
    return NO, f"{text}, only {have:.3g} Gbit/s is there"
