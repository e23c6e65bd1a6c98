"""F8: how long a run takes on each GPU of the catalogue, as a range. Arrays over GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuferry.audit.catalogue.gpu import Gpu
from gpuferry.audit.catalogue.match import lookup
from gpuferry.audit.estimate import formulas as f
from gpuferry.audit.estimate import states, work
from gpuferry.audit.estimate.terms import Layout
from gpuferry.audit.read.workload import Workload

Array = np.ndarray[Any, np.dtype[np.float64]]
# Share of the ideal speed that several GPUs of one server reach: near 1 over NVLink (ResNet-50 on
# 1, 2, 4, 8 H100: 2790, 5531, 11057, 22059 images/s, lambdal), less over PCIe (assumed).
NVLINK, PCIE, PCIE_TP = 0.97, 0.85, 0.6
# Rendering without ray-tracing cores takes longer by this much: quick, likely, slow (assumed; the
# slow end is what MilchRatchet/Luminary#41 cites for compute shaders on an RTX 2080 Ti).
NO_RAY_CORES = (1.0, 2.0, 4.0)


# Molecular dynamics lies between: the kernels of forces are bound by computing (Kutzner 2015,
# arXiv:1507.00898), large systems more and more by memory (arXiv:2510.06902).
PARTICLES = ("gromacs", "amber", "namd", "openmm", "lammps")


@dataclass(frozen=True)
class Timing:
    """Seconds of one run for every GPU: quick, likely, slow; and what it was computed from."""

    quick: Array
    mid: Array
    slow: Array
    how: str
    formula: str
    # How much quicker one GPU is than one of today, where that is known.
    speed: Array | None = None


class Speeds:
    """Rates of all GPUs as arrays."""

    def __init__(self, gpus: tuple[Gpu, ...]) -> None:
        self.gpus = gpus
        self.index = {gpu.name: i for i, gpu in enumerate(gpus)}
        self.bandwidth = np.array([g.mem_bw_gbs for g in gpus]) * 1e9
        self.nvlink = np.array([g.nvlink for g in gpus])
        self.shaders = np.array([g.shader_tflops for g in gpus])
        self.shaders_fp64 = self.shaders * [1 / 2 if g.full_fp64 else 1 / 64 for g in gpus]
        self.ray_cores = np.array([g.graphics for g in gpus])
        self._tflops: dict[str, Array] = {}

    def tflops(self, precision: str) -> Array:
        """Dense peaks in one precision; where it is missing, FP16 is what would be used."""
        if precision not in self._tflops:
            values = [g.tflops(precision) or g.fp16_tflops for g in self.gpus]
            self._tflops[precision] = np.array(values, dtype=float)
        return self._tflops[precision]


def run_seconds(w: Workload, speeds: Speeds, layout: Layout) -> Timing | None:
    """Time of one run in a layout, None when nothing says how much work it is."""
    base = one_gpu(w, speeds)
    return None if base is None else spread(base, speeds, layout)


def spread(base: Timing, speeds: Speeds, layout: Layout) -> Timing:
    """The same run over the GPUs of a layout."""
    if layout.gpus == 1:
        return base
    scale = layout.gpus * _efficiency(speeds, layout)
    quick, mid, slow = base.quick / scale, base.mid / scale, base.slow / scale
    return Timing(quick, mid, slow, base.how, base.formula, base.speed)


def one_gpu(w: Workload, speeds: Speeds) -> Timing | None:
    """Time of one run on one GPU of each kind."""
    now = _time_now(w)
    if now:
        return _scaled(w, speeds, now)
    flops, how = _flops(w)
    if not flops:
        return None
    peak = speeds.tflops(states.precision_of(w)) * 1e12
    given = w.number("mfu") / 100
    usual = work.MFU_CNN if w.family == "cnn" else work.MFU
    mfu = (given, given, given) if given else usual
    quick, mid, slow = (flops / (peak * share) for share in mfu)
    if w.kind == "infer" and w.family == "llm":
        steps = w.number("tokens") / max(1.0, w.number("concurrency", 1))
        weight = f.weights(w.number("active_params") or w.number("params"), "bf16")
        floor = steps * weight / speeds.bandwidth
        limits = ((quick, 1), (mid, 1.3), (slow, 2))
        quick, mid, slow = (np.maximum(t, floor * k) for t, k in limits)
        how += ", at least one read of the weights for each token of a sequence"
    shares = [given] if given else usual
    how += f" at {', '.join(f'{x * 100:g}' for x in shares)} % of the peak"
    return Timing(quick, mid, slow, how, "F8")


def _efficiency(speeds: Speeds, layout: Layout) -> Array:
    pcie = PCIE_TP if layout.tp > 1 or layout.zero >= 3 else PCIE
    return np.where(speeds.nvlink, NVLINK, pcie)


def _time_now(w: Workload) -> tuple[float, str] | None:
    """GPU-seconds of one run on the present GPU."""
    gpus = w.number("gpus_now", 1)
    if w.has("run_time_now"):
        return w.number("run_time_now") * gpus, f"{w.values['run_time_now'].said}"
    if w.has("samples", "samples_per_s_now") and w.number("samples_per_s_now"):
        seconds = w.number("samples") / w.number("samples_per_s_now") * gpus
        return seconds, w.said("samples", "samples_per_s_now")
    if w.has("samples", "seconds_per_frame_now"):
        return w.number("samples") * w.number("seconds_per_frame_now"), w.said(
            "samples", "seconds_per_frame_now"
        )
    return None


def relative(w: Workload, speeds: Speeds) -> tuple[Array, Array, Array] | None:
    """Time on every GPU over the time on today's: quick, likely, slow; None when it is unknown.

    A name that leaves several GPUs open (A100) gives the range over all of them.
    """
    today = lookup(w.text("source_gpu")).candidates if w.has("source_gpu") else ()
    if not today:
        return None
    rendering = w.kind == "render"
    tflops, _ = _compute(w, speeds)
    at = [speeds.index[gpu.name] for gpu in today]
    compute = tflops[at][:, None] / tflops
    memory = speeds.bandwidth[at][:, None] / speeds.bandwidth
    if rendering:  # tensor cores and the bandwidth of HBM do not trace rays
        memory = np.maximum(memory, compute)
    # Stencils and token by token decoding follow the memory.
    particles = any(name in w.text("framework").lower() for name in PARTICLES)
    follows = (w.kind == "sim" and not particles) or (w.kind == "infer" and w.family == "llm")
    mid = memory if follows else np.sqrt(compute * memory)
    quick = np.minimum(compute, memory).min(axis=0)
    slow = np.maximum(compute, memory).max(axis=0)
    mid = mid[0] if len(at) == 1 else np.exp(np.log(mid).mean(axis=0))
    if rendering and speeds.ray_cores[at].all():
        quick, mid, slow = (
            np.where(speeds.ray_cores, t, t * more)
            for t, more in zip((quick, mid, slow), NO_RAY_CORES, strict=True)
        )
    if w.has("gpu_util") and w.number("gpu_util") < 80:
        # What waits for the host now does not become quicker with a better GPU.
        share = w.number("gpu_util") / 100
        quick, mid, slow = (1 - share + share * t for t in (quick, mid, slow))
    return quick, mid, slow


def _compute(w: Workload, speeds: Speeds) -> tuple[Array, str]:
    """The rate that matters, and its name: renderers and simulations do not use tensor cores."""
    if w.kind not in ("render", "sim"):
        return speeds.tflops(states.precision_of(w)), "FLOPS"
    if w.flag("needs_fp64") or w.text("precision") == "fp64":
        return speeds.shaders_fp64, "FP64 FLOPS"
    return speeds.shaders, "FP32 FLOPS (without tensor cores)"


def _scaled(w: Workload, speeds: Speeds, now: tuple[float, str]) -> Timing:
    seconds, said = now
    found = relative(w, speeds)
    if found is None:
        how = f"today's time ({said}); source_gpu is unknown, so other GPUs are not told apart"
        base = np.full(len(speeds.gpus), seconds)
        return Timing(base * 0.5, base, base * 2, how, "F8")
    names = " or ".join(gpu.name for gpu in lookup(w.text("source_gpu")).candidates)
    how = f"today's time ({said}) on {names}, by {_compute(w, speeds)[1]} and by bandwidth"
    if w.has("gpu_util") and w.number("gpu_util") < 80:
        how += f"; only {w.number('gpu_util'):.0f}% of the time is GPU work"
    quick, mid, slow = (seconds * ratio for ratio in found)
    return Timing(quick, mid, slow, how, "F8", 1 / found[1])


def _flops(w: Workload) -> tuple[float, str]:
    params = w.number("active_params") or w.number("params")
    if w.has("flops_per_sample", "samples"):
        factor = 3 if w.training else 1
        flops = w.number("flops_per_sample") * w.number("samples") * factor
        return flops, f"{factor} x {w.number('flops_per_sample'):.3g} FLOPs x samples"
    if w.family != "llm" or not w.has("tokens") or not params:
        return 0.0, ""
    tokens = w.number("tokens")
    if not w.training:
        return 2 * params * tokens, f"2 x {params / 1e9:.3g}e9 x {tokens:.3g} tokens"
    recompute = w.text("recompute") == "full"
    frozen = states.method_of(w) != "full"
    flops = work.training_flops(params, tokens, recompute=recompute, frozen=frozen)
    factor = 6 + 2 * recompute - 2 * frozen
    return flops, f"{factor:g} x {params / 1e9:.3g}e9 x {tokens:.3g} tokens"
