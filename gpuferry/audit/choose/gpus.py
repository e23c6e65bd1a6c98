"""Every GPU of the catalogue for one workload: fits, tight, does not fit, and why."""

from __future__ import annotations

import math
import re
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
    needs = _needs(w)
    return [_fit(w, gpu, needs) for gpu in catalogue()]


def _needs(w: Workload) -> list[tuple[int, Estimate]]:
    """(number of GPUs, need of one) for every way to spread the run."""
    return [
        (count, need)
        for count in COUNTS
        if count <= w.number("max_gpus_per_server", 8)
        for layout in layouts(w, count)
        if (need := estimate(w, layout)) is not None
    ]


def why_no_offer(w: Workload, refusals: list[str]) -> tuple[list[str], str]:
    """(names of GPUs that would fit, why none does when there are none).

    `refusals` are those of :func:`eligible.refusal`, in the catalogue's order.
    """
    needs = _needs(w)
    least = min((max(n.mid / FIT, n.high / MOST) for _, n in needs), default=math.inf)
    left = [gpu for gpu, why in zip(catalogue(), refusals, strict=True) if not why]
    names = [gpu.name for gpu in left if visible(w, gpu) >= least]
    return names, "" if names else _why_none(w, needs, left, refusals)


def _why_none(
    w: Workload, needs: list[tuple[int, Estimate]], left: list[Gpu], refusals: list[str]
) -> str:
    """The commonest refusals, and the GPU that comes nearest."""
    parts = [
        f"{count} {'is' if count == 1 else 'are'} refused ({why})"
        for why, count in Counter(
            re.sub(r" \(cc [^)]*\)", "", why) for why in refusals if why
        ).most_common(3)
    ]
    if left:
        largest = max(left, key=lambda gpu: visible(w, gpu))
        why = _fit(w, largest, needs).why
        parts.append(f"the largest of {len(left)} others is {largest.name}: {why}")
    if w.kind == "sim" and not w.splits:
        parts.append("with splits: yes, several GPUs would share the case, if the code can")
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
