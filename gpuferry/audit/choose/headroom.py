"""What is used up first, what would be too much, and how the server can grow."""

from __future__ import annotations

from gpuferry.audit.choose.decision import MOST, Candidate, Limit
from gpuferry.audit.estimate.terms import Estimate
from gpuferry.audit.offers.offer import MONTH_HOURS, Offer
from gpuferry.audit.read.units import show_duration, show_size
from gpuferry.audit.read.workload import Workload

# Terms that stay as they are when the load grows.
_FIXED = {
    "weights", "gradients", "optimizer", "adapter weights", "adapter gradients", "gathered layers",
    "adapter optimizer", "context", "fixed part", "kernels", "text encoder, VAE", "CUDA graphs",
    "dequantised matrix", "cuDNN workspace", "optimizer step",
}  # fmt: skip
UNUSED = 0.4
STEP_PERCENT = 50.0


def limits(w: Workload, chosen: Candidate) -> list[Limit]:
    """Every limit of a server, the first to be reached first."""
    offer, wants = chosen.offer, chosen.host
    found = [_memory(chosen.need, offer)]
    deadline = w.number("deadline")
    if chosen.seconds and deadline:
        text = f"{show_duration(chosen.seconds[1])} of {show_duration(deadline)}"
        found.append(Limit("deadline", chosen.seconds[1], deadline, text))
    if chosen.month_hours < MONTH_HOURS and w.has("runs_per_month"):
        total = MONTH_HOURS * chosen.servers
        text = f"{chosen.month_hours:.0f} of {total:.0f} h"
        found.append(Limit("hours of a month", chosen.month_hours, total, text))
    for name, use, have in (
        ("host memory", wants.memory, offer.memory),
        ("disk", wants.disk, offer.disk),
    ):
        if have:
            text = f"{show_size(use)} of {show_size(have)}"
            found.append(Limit(name, use, have, text))
    if offer.cpu_cores:
        text = f"{wants.cores:.0f} of {offer.cpu_cores:g}"
        found.append(Limit("CPU cores", wants.cores, offer.cpu_cores, text))
    return sorted(found, key=lambda limit: limit.growth)


def _memory(need: Estimate, offer: Offer) -> Limit:
    fixed = sum(t.mid for t in need.terms if t.name in _FIXED)
    grows = max(need.mid - fixed, 1.0)
    room = max(offer.visible_bytes * MOST - fixed, 0.0)
    text = f"{show_size(need.mid)} of {show_size(offer.visible_bytes)}"
    if fixed:
        text += f", of which {show_size(grows)} grow with the load"
    return Limit("GPU memory", grows, room, text)


def first_to_break(found: list[Limit]) -> str:
    """The first limit at half as much load again, for people."""
    broken = [limit for limit in found if limit.growth < STEP_PERCENT]
    if not broken:
        first = found[0] if found else None
        return f"nothing; first {first.name} at +{first.growth:.0f} %" if first else ""
    first = broken[0]
    return f"{first.name} at +{max(first.growth, 0):.0f} % ({first.said})"


def over_rented(w: Workload, chosen: Candidate) -> str:
    """What is paid for and not used: under 40 % of memory and of time. Empty when it is not so."""
    share = None
    deadline = w.number("deadline")
    if w.has("runs_per_month") or w.has("gpu_hours_week"):
        share = chosen.month_hours / (MONTH_HOURS * chosen.servers)
    elif chosen.seconds and deadline:
        share = chosen.seconds[1] / deadline
    if chosen.offer.period == "hour" and chosen.month_hours < MONTH_HOURS:
        return ""  # hours that are not used are not paid
    if chosen.fill >= UNUSED or (share or 0) >= UNUSED:
        return ""
    text = f"{chosen.fill:.0%} of the memory and {share or 0:.0%} of the time are used"
    if share is None:
        text = f"{chosen.fill:.0%} of the memory is used, and nothing says how much of the time"
        if w.kind == "infer":
            text += " (duty)"
    if chosen.offer.gpu.mig_slices and chosen.offer.devices == 1 and not chosen.offer.mig:
        text += f"; a MIG slice (1 of {chosen.offer.gpu.mig_slices}) may do"
    return text


def growth(chosen: Candidate, offers: tuple[Offer, ...]) -> list[str]:
    """Ways to grow without a reinstall: the data is on its own volume, the driver stays."""
    mine = chosen.offer
    ways = []
    more = [
        o for o in offers
        if o.provider == mine.provider and o.gpu == mine.gpu and o.devices > mine.devices
        and not o.mig and o.kind == mine.kind
    ]  # fmt: skip
    if more:
        nearest = min(more, key=lambda o: o.devices)
        ways.append(f"more of the same GPU, same image and driver: {nearest.name} ({nearest.id})")
    larger = [
        o for o in offers
        if o.provider == mine.provider and o.gpu.vendor == mine.gpu.vendor
        and o.visible_bytes > mine.visible_bytes * 1.2 and o.devices == mine.devices
        and o.gpu.arm_host == mine.gpu.arm_host and o.kind == mine.kind
    ]  # fmt: skip
    if larger:
        nearest = min(larger, key=lambda o: o.visible_bytes)
        text = f"a larger GPU: {nearest.name} ({nearest.id}), "
        same = nearest.gpu.arch == mine.gpu.arch
        text += (
            "same driver branch and kernels"
            if same
            else (f"needs images built for compute capability {nearest.gpu.compute_capability}")
        )
        ways.append(text)
    return ways or [f"none among the offers of {mine.provider or 'this set'}"]
