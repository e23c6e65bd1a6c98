"""Bus, power limit and memory against what the model can do."""

from __future__ import annotations

from gpuferry.checking.gpu.judgement import Judgement, each_gpu, not_measured, number_of
from gpuferry.checking.gpu.model import model_of
from gpuferry.checking.gpu.survey import Survey, Transcript

_MIB = 1 << 20
# Chosen: far above the few MiB that a GPU shows without any process.
LEAKED_MIB = 256
# NVML counts in mW; limits are set in whole watts.
_TOLERANCE_W = 1.0
LEAK = "see who holds it (sudo fuser -v /dev/nvidia*); reset the GPU when no work runs on {server}"


def pcie(survey: Survey) -> Judgement:
    """The link is as wide as it can be and can be as fast as the model.

    A link that trains down to a lower generation while idle is normal: what it can reach counts.
    """

    def one(gpu: Transcript) -> Judgement:
        keys = ("pcie_generation", "pcie_generation_max", "pcie_width", "pcie_width_max")
        if why := next(filter(None, map(gpu.why_not, keys)), ""):
            return not_measured(why)
        now, top, width, widest = (gpu.values[key] for key in keys)
        row = model_of(survey, gpu)
        wanted_width = (row.pcie_width if row else None) or widest
        wanted_top = (row.pcie_generation if row else None) or top
        told = f"generation {top} x{width}"
        evidence = f"generation {now} at the moment"
        if width < wanted_width:
            return Judgement("fail", f"{told}, x{wanted_width} is possible", "", evidence)
        if top < wanted_top:
            slow = f"{told}, the model can generation {wanted_top}"
            return Judgement("fail", slow, "", evidence, severity="minor")
        return Judgement("pass", told, "", evidence)

    return each_gpu(survey, "generation and width of the model", one)


def power_limit(survey: Survey) -> Judgement:
    """The power limit in force is not below the model's."""

    def one(gpu: Transcript) -> Judgement:
        row = model_of(survey, gpu)
        known = row.power_watts if row else None
        if why := gpu.why_not("power_limit_mw"):
            return not_measured(why)
        if known is None and (why := gpu.why_not("power_limit_default_mw")):
            return not_measured(f"no expectation of this model; {why}")
        limit = gpu.values["power_limit_mw"] / 1000
        wanted = known or gpu.values["power_limit_default_mw"] / 1000
        source = "the model's" if known else "its default"
        told = f"{limit:.0f} W, {wanted:.0f} W is {source}"
        return Judgement("pass" if limit >= wanted - _TOLERANCE_W else "fail", told)

    return each_gpu(survey, "not below the model's limit", one)


def memory(survey: Survey) -> Judgement:
    """The memory is the model's, and none is in use that belongs to no process."""

    def one(gpu: Transcript) -> Judgement:
        if why := gpu.why_not("memory") or gpu.why_not("processes"):
            return not_measured(why)
        total, used = (number // _MIB for number in gpu.values["memory"])
        pids = gpu.values["processes"]
        row = model_of(survey, gpu)
        told = f"{total} MiB, {used} MiB in use by {number_of(len(pids), 'process')}"
        if row and total < (least := _least_mib(row.memory_gb, row.memory_mib)):
            return Judgement("fail", f"{told}; the model has {least} MiB or more")
        if used > LEAKED_MIB and not pids:
            if survey.facts.virtualization.container and not survey.simulated:
                return not_measured(f"{told}; processes of other containers are not seen from here")
            return Judgement("fail", f"{told}: leaked", severity="minor", next_step=LEAK)
        return Judgement("pass", told)

    return each_gpu(survey, "the model's size, nothing in use without a process", one)


def _least_mib(nominal_gb: float, seen_mib: int | None) -> int:
    """A GPU shows up to a tenth less than its nominal size (rules/expectations.yaml)."""
    return round(seen_mib * 0.99) if seen_mib else int(nominal_gb * 0.9 * 1e9 / _MIB)
