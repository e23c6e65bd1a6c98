"""Which GPUs are out of the question, whatever their memory, and why."""

from __future__ import annotations

from gpuferry.audit.catalogue.gpu import Gpu
from gpuferry.audit.catalogue.match import lookup
from gpuferry.audit.estimate import states
from gpuferry.audit.read.workload import Workload

Key = tuple[object, ...]


def key(w: Workload) -> Key:
    """What :func:`refusal` depends on, so that rows with the same demands share its answer."""
    return (
        w.text("vendor", "nvidia"), w.flag("arm_ok"), w.flag("needs_fp64"), w.flag("needs_ecc"),
        w.flag("needs_display"), w.flag("needs_nvenc"), w.number("min_compute_capability"),
        states.precision_of(w), w.text("gpu"), w.kind, w.text("weights_precision"),
        w.text("kv_precision"),
    )  # fmt: skip


def refusal(w: Workload, gpu: Gpu) -> str:
    """Why this GPU cannot be used; empty when it can."""
    wanted = w.text("vendor", "nvidia")
    if w.has("gpu") and gpu not in lookup(w.text("gpu")).candidates:
        return f"only {w.text('gpu')} is wanted"
    if wanted not in ("any", gpu.vendor.lower()):
        return f"{gpu.vendor}: needs another build than {wanted}'s (vendor: any allows it)"
    if gpu.arm_host and not w.flag("arm_ok"):
        return "Arm host: needs arm64 images (arm_ok: yes allows it)"
    if w.flag("needs_fp64") and not gpu.full_fp64:
        return f"double precision at a small fraction of the rate (cc {gpu.compute_capability})"
    if w.flag("needs_ecc") and not gpu.ecc:
        return "no ECC memory"
    if (w.flag("needs_display") or w.flag("needs_nvenc")) and not gpu.graphics:
        return "a compute chip: no ray-tracing cores, display or NVENC"
    return _capability(w, gpu) or _precisions(w, gpu)


def _capability(w: Workload, gpu: Gpu) -> str:
    least = w.number("min_compute_capability")
    if least and gpu.vendor != "NVIDIA":
        return f"no CUDA compute capability, {least:g} is needed"
    if gpu.capability < least:
        return f"compute capability {gpu.compute_capability}, at least {least:g} is needed"
    return ""


def _precisions(w: Workload, gpu: Gpu) -> str:
    for used in (states.precision_of(w), w.text("kv_precision"), w.text("weights_precision")):
        if used and not gpu.supports(used):
            return f"no {used.upper()} (cc {gpu.compute_capability})"
    return ""
