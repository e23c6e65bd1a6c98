"""Whether the GPUs are cut into MIG instances as declared."""

from __future__ import annotations

from collections.abc import Sequence

from gpuferry.checking.expectations import ExpectedGpu
from gpuferry.checking.gpu.judgement import Judgement, judge, not_measured
from gpuferry.checking.gpu.survey import Survey, Transcript

_USELESS = ["MIG on, no instance"]


def layout(survey: Survey, declared: ExpectedGpu | None) -> Judgement:
    """Mode and instances of every GPU, in any order; undeclared, what nobody can use fails.

    Instances are lost on reboot (NVIDIA/k8s-device-plugin#225), and a GPU in MIG mode without any
    cannot be used at all.
    """
    wish = declared.mig if declared else None
    expected = "not declared: whole, or with instances"
    if wish is not None:
        expected = "; ".join(f"GPU {index}: {told(parts)}" for index, parts in wish.items())
    if survey.no_nvml:
        return not_measured(survey.no_nvml, expected)
    found = [_parts(gpu) for gpu in survey.nvml.gpus]
    measured = "; ".join(f"GPU {index}: {told(parts)}" for index, parts in enumerate(found))
    if any(isinstance(parts, str) for parts in found):
        return not_measured(measured, expected)
    if wish is None:
        return judge(_USELESS not in found, measured, expected)
    wanted = {index: sorted(parts) for index, parts in wish.items()}
    return judge(dict(enumerate(found)) == wanted, measured, expected)


def told(parts: Sequence[str] | str) -> str:
    """`3g.40gb + 3g.40gb`, `whole`, or the problem."""
    return parts if isinstance(parts, str) else " + ".join(parts) or "whole"


def _parts(gpu: Transcript) -> list[str] | str:
    """Profiles of a GPU's instances; a text where it does not tell."""
    if gpu.not_supported("mig_mode"):
        return []
    if why := gpu.why_not("mig_mode") or gpu.why_not("mig_instances"):
        return why
    current, pending = gpu.values["mig_mode"]
    if current != pending:
        return "the MIG mode changes with the next reset or reboot"
    names = sorted(name for name, _ in gpu.values["mig_instances"])
    return names if names or not current else _USELESS
