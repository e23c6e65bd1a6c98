"""Every GPU of the catalogue for one workload: fits, tight, does not fit, and why."""

from __future__ import annotations

import math
from collections import Counter

from gpuferry.audit.catalogue.gpu import Gpu
from gpuferry.audit.catalogue.load import catalogue
from gpuferry.audit.choose import eligible
from gpuferry.audit.choose.decision import FIT, FITS, MOST, NO, TIGHT, GpuFit
from gpuferry.audit.estimate.need import estimate, floor_gib, layouts
from gpuferry.audit.estimate.terms import Estimate
from gpuferry.audit.read.units import show_size
from gpuferry.audit.read.workload import Workload

COUNTS = (1, 2, 4, 8)


def fits(w: Workload) -> list[GpuFit]:
    """One answer for each GPU, in the catalogue's order."""
    needs = [
        (count, need)
        for count in COUNTS
        if count <= w.number("max_gpus_per_server", 8)
        for layout in layouts(w, count)
        if (need := estimate(w, layout)) is not None
    ]
    return [_fit(w, gpu, needs) for gpu in catalogue()]


def names_that_fit(w: Workload) -> list[str]:
    """Only the names of GPUs that fit, without their reasons."""
    shares = [
        (need.mid / FIT, need.high / MOST)
        for count in COUNTS
        if count <= w.number("max_gpus_per_server", 8)
        for layout in layouts(w, count)
        if (need := estimate(w, layout)) is not None
    ]
    least = min((max(pair) for pair in shares), default=math.inf)
    return [
        gpu.name for gpu in catalogue()
        if visible(w, gpu) >= least and not eligible.refusal(w, gpu)
    ]  # fmt: skip


def why_none(w: Workload) -> str:
    """Why no GPU fits at all: the commonest refusals, and the one that comes nearest."""
    refused = Counter(why for gpu in catalogue() if (why := eligible.refusal(w, gpu)))
    parts = [f"{count} are refused ({why})" for why, count in refused.most_common(3)]
    left = [gpu for gpu in catalogue() if not eligible.refusal(w, gpu)]
    if left:
        largest = max(left, key=lambda gpu: visible(w, gpu))
        fit = next(f for f in fits(w) if f.name == largest.name)
        parts.append(f"the largest of {len(left)} others is {largest.name}: {fit.why}")
    return "; ".join(parts)


def visible(w: Workload, gpu: Gpu) -> float:
    """Memory that this workload finds; ECC takes its share where it is wanted."""
    return gpu.visible_bytes * (15 / 16 if w.flag("needs_ecc") and gpu.ecc_costs else 1)


def _fit(w: Workload, gpu: Gpu, needs: list[tuple[int, Estimate]]) -> GpuFit:
    refusal = eligible.refusal(w, gpu)
    if refusal:
        return GpuFit(gpu.name, NO, refusal)
    if not needs:
        return GpuFit(gpu.name, NO, "its need is not known")
    have = visible(w, gpu)
    best: GpuFit | None = None
    for count, need in needs:
        status, why = memory(need, have)
        floor, said = floor_gib(w)
        if status == FITS and need.basis != "measured" and gpu.vram_gb < floor - 0.5:
            status, why = TIGHT, f"{why}; below the floor: {said}, measure a run first"
        if count > 1:
            why = f"{count} GPUs, {need.layout.said}: {why}"
        if best is None or status > best.status:
            best = GpuFit(gpu.name, status, why, count)
        if status == FITS:
            break
    assert best is not None
    if best.status == NO:
        # The one-GPU figure says most; the sum over GPUs never does.
        count, need = needs[0]
        best = GpuFit(gpu.name, NO, memory(need, have)[1] + _even(needs, have))
    return best


def _even(needs: list[tuple[int, Estimate]], have: float) -> str:
    if len(needs) < 2:
        return ""
    count, need = needs[-1]
    return f"; still {need.mid / have:.0%} of each of {count} with {need.layout.said}"


def memory(need: Estimate, have: float) -> tuple[int, str]:
    """Status and reason of a need against the memory of one GPU."""
    share, most = need.mid / have, need.high / have
    text = f"{show_size(need.mid)} of {show_size(have)} on one GPU ({share:.0%}"
    text += f", up to {most:.0%})" if need.high > need.mid * 1.01 else ")"
    if share <= FIT and most <= MOST:
        return FITS, text
    if share > MOST:
        return NO, text
    why = "a measured step decides" if need.basis != "measured" else "little head-room"
    return TIGHT, f"{text}: {why}"
