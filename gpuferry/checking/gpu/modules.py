"""Kernel modules and persistence mode."""

from __future__ import annotations

from gpuferry.checking.gpu.judgement import Judgement, each_gpu, judge, not_measured
from gpuferry.checking.gpu.survey import Survey, Transcript

# The daemon may start late after a boot, which is no fault yet (leptonai/gpud#431).
PERSISTENCE_GRACE_SECONDS = 600
BUILD = "install the kernel's headers, then run: ./ferry converge {server}"


def module_for_kernels(survey: Survey) -> Judgement:
    """There is a module for the running kernel and for the one that the next boot takes."""
    expected = "a module for the running and the newest kernel"
    if survey.simulated:
        return not_measured("simulated GPUs have no kernel module", expected)
    if survey.facts.virtualization.container:
        return not_measured("a container uses its host's kernel and modules", expected)
    told = ", ".join(f"{kernel}: {v or 'none'}" for kernel, v in survey.modules.items())
    states = [f"{d.module} {d.version} {d.kernel} {d.state}" for d in survey.facts.dkms]
    evidence = f"dkms: {'; '.join(states)}" if states else "dkms tells of no module"
    ok = bool(survey.modules) and all(survey.modules.values())
    return judge(ok, told or "no kernel is installed", expected, evidence)


def nouveau(survey: Survey) -> Judgement:
    """The kernel's own driver is neither loaded nor bound."""
    facts = survey.facts
    bound = [gpu.address for gpu in facts.gpus if gpu.driver == "nouveau"]
    problems = ["nouveau is loaded"] if facts.nouveau.loaded else []
    problems += [f"nouveau has {address}" for address in bound]
    drivers = ", ".join(f"{gpu.address} {gpu.driver or 'none'}" for gpu in facts.gpus)
    expected = "neither loaded nor bound"
    return judge(not problems, "; ".join(problems) or expected, expected, f"bound: {drivers}")


def persistence(survey: Survey) -> Judgement:
    """Persistence mode is on: without it every first use of a GPU takes seconds."""

    def one(gpu: Transcript) -> Judgement:
        if why := gpu.why_not("persistence"):
            return not_measured(why)
        if gpu.values["persistence"]:
            return Judgement("pass", "on")
        uptime = survey.facts.boot.uptime_seconds
        if survey.simulated:
            return not_measured("off; a simulated GPU has nothing to keep ready")
        if survey.facts.virtualization.container:
            return not_measured("off; that is for the container's host to say")
        if uptime < PERSISTENCE_GRACE_SECONDS:
            return not_measured(f"off {uptime} s after boot, pending")
        return Judgement("fail", "off", severity="minor")

    return each_gpu(survey, "on", one)
