"""What one GPU needs: the formula of the workload's kind, overruled by what was measured."""

from __future__ import annotations

from collections.abc import Iterable

from gpuferry.audit.catalogue.match import lookup
from gpuferry.audit.estimate import language, other
from gpuferry.audit.estimate.terms import Estimate, Layout, Term
from gpuferry.audit.read.units import GIB, show_size
from gpuferry.audit.read.workload import Known, Workload

# They take most of a card whatever they need, so what was measured is their setting.
PREALLOCATING = ("vllm", "sglang", "jax", "tensorflow", "tensorrt-llm")


def layouts(w: Workload, gpus: int) -> tuple[Layout, ...]:
    """Ways to spread a run over so many GPUs, the least change first; empty when it cannot be."""
    tp, pp = int(w.number("tp", 1)), int(w.number("pp", 1))
    zero = int(w.number("zero"))
    if gpus == 1:
        return (Layout(1),)
    if tp * pp > 1:
        if gpus % (tp * pp):
            return ()
        return (Layout(gpus, tp, pp, zero),)
    if w.kind in ("render", "etl"):
        return (Layout(gpus),) if w.splits else ()
    if w.kind == "sim":
        return (Layout(gpus, parts=True),) if w.splits else ()
    if not w.training:
        copies = Layout(gpus)
        if w.family != "llm":
            return (copies,)
        return (copies, Layout(gpus, tp=gpus, changed=f"tensor parallel over {gpus}"))
    declared = Layout(gpus, zero=zero)
    if zero >= 3 or w.family == "cnn":
        return (declared,)
    return (declared, Layout(gpus, zero=3, changed="FSDP (ZeRO-3)"))


def formula_terms(w: Workload, layout: Layout) -> tuple[Term, ...]:
    """The terms of the kind's formula; empty where nothing is known to compute with."""
    return tuple(_formula(w, layout))


def _formula(w: Workload, layout: Layout) -> Iterable[Term]:
    if other.can_two_points(w):
        return other.two_points(w)
    for is_it, known, terms in (
        (w.kind == "render", ("geometry", "textures", "texture_count"), other.rendering),
        (w.kind == "sim", ("cells",), other.simulation),
        (w.family == "cnn", ("activations_m",), other.convolution),
        (w.family == "diffusion", ("params",), other.diffusion),
        (w.family == "llm", ("params",), language.training if w.training else language.serving),
    ):
        if is_it:
            enough = any(w.has(name) for name in known) and (w.family != "cnn" or w.has("params"))
            return terms(w, layout) if enough else ()
    return ()


def estimate(w: Workload, layout: Layout) -> Estimate | None:
    """The need of one GPU; None when nothing was measured, declared or can be computed.

    A measured peak overrules the formula. For another number of GPUs the formula's ratio scales it.
    """
    terms = formula_terms(w, layout)
    notes = list(_assumed(w))
    formula = Estimate(layout, terms, _basis(w), tuple(notes)) if terms else None
    count = int(w.number("gpus_now", 1))
    peak, known = _peak(w, count, notes)
    if known is None:
        return formula
    framework = w.text("framework").lower()
    if formula and any(name in framework for name in PREALLOCATING):
        note = (
            f"{framework} reserves memory in advance: {show_size(peak)} is its setting, not a need"
        )
        return Estimate(layout, terms, notes=(*notes, note))
    if known.basis != "measured" and formula:
        if not 0.67 < peak / formula.mid < 1.5:
            notes.append(f"{known.said}: {show_size(peak)}; the formula says {formula.said}")
        return Estimate(layout, terms, notes=tuple(notes), cross_check=peak)
    notes = [note for note in notes if note not in _assumed(w)]  # a measured peak needs no shape
    now = layout_now(w, count)
    scale = 1.0
    if layout.gpus != count or layout != now:
        scale = _scale(w, layout, now)
    low, high = _spread(w, peak, known.basis, notes)
    value = peak * scale
    if scale != 1:  # activations measured larger than the formula's do not make weights smaller
        value = max(value, sum(t.low for t in terms if t.name == "weights"))
    if not formula and _may_be_split(w, layout, count):
        high = max(high, count / layout.gpus)
        notes.append(
            f"measured on {count} GPUs and taken as copies of the model; if it is split over "
            "them, fewer GPUs need more each: give tp, pp or dp"
        )
    if scale != 1:
        notes.append(
            f"measured on {count} GPU{'s' * (count > 1)} and scaled by {scale:.3g} (formula)"
        )
        low, high = low * 0.95, high * 1.1
    if formula and layout == now and not 0.67 < peak / formula.mid < 1.5:
        notes.append(f"the formula says {formula.said}: look for the reason")
    how = f"{known.said}" + (f" on {w.text('source_gpu')}" if w.has("source_gpu") else "")
    term = Term("peak", "measured", value * low, value, value * high, how, known.basis)
    basis = "measured" if known.basis == "measured" else "declared"
    cross = formula.mid if formula else 0.0
    return Estimate(layout, (term,), basis, tuple(notes), cross)


def _assumed(w: Workload) -> tuple[str, ...]:
    """What the table leaves out and the formula takes from somewhere else."""
    if w.assumed is None:
        w.assumed = tuple(_find_assumed(w))
    return w.assumed


def _peak(w: Workload, count: int, notes: list[str]) -> tuple[float, Known | None]:
    """The peak of one GPU as the table has it, and where it comes from."""
    if w.has("peak_vram"):
        return w.number("peak_vram"), w.values["peak_vram"]
    if w.has("peak_vram_total"):
        notes.append(f"peak_vram_total over {count} GPUs, taken as even")
        return w.number("peak_vram_total") / count, w.values["peak_vram_total"]
    return 0.0, None


def _may_be_split(w: Workload, layout: Layout, count: int) -> bool:
    """Whether a peak of several GPUs may be that of a part of the model."""
    said = w.has("dp") or w.has("tp") or w.has("pp")
    return layout.gpus < count and not said and w.kind in ("train", "finetune", "infer")


def _find_assumed(w: Workload) -> list[str]:
    if other.can_two_points(w):
        large, batch = w.number("batch_large"), w.number("batch")
        far = f"batch {batch:g} is {batch / large:.3g} times the largest that was measured"
        return [f"{far}: measure nearer to it"] if batch > 2 * large else []
    if w.family == "diffusion" and w.has("params") and not w.has("resolution"):
        return ["resolution is not given: 1024 x 1024 is assumed"]
    if w.family != "llm" or not w.has("params"):
        return []
    notes = ["family is not given: llm is assumed"] if w.family_guessed else []
    if not w.has("layers", "hidden"):
        notes.append(
            "the model's shape is assumed from its parameters: give config (its config.json), or "
            "layers, hidden, heads, kv_heads, intermediate and vocab, for a narrower range"
        )
    elif w.training and not w.has("vocab"):
        notes.append("vocab is not given: 32,000 to 152,064 are assumed")
    names = (("context", "seq"), ("concurrency", "batch")) if not w.training else (
        ("seq",), ("batch",),
    )  # fmt: skip
    missing = [some[0] for some in names if not any(w.has(name) for name in some)]
    taken = {"context": "4096 tokens", "seq": "2048 tokens", "concurrency": "one request at a time",
             "batch": "1"}  # fmt: skip
    notes += [f"{name} is not given: {taken[name]} is assumed" for name in missing]
    return notes


def _basis(w: Workload) -> str:
    """Two measured points are as good as a measurement between and near them."""
    if not other.can_two_points(w):
        return "estimated"
    points = (w.values["vram_small"], w.values["vram_large"])
    near = w.number("batch", 1) <= 2 * w.number("batch_large")
    return "measured" if near and all(p.basis == "measured" for p in points) else "estimated"


def layout_now(w: Workload, count: int) -> Layout:
    """How the run is spread over its GPUs today, as far as the table says."""
    tp, pp = int(w.number("tp", 1)), int(w.number("pp", 1))
    zero = int(w.number("zero")) if count > 1 else 0
    return Layout(count, tp, pp, zero, parts=w.kind == "sim" and count > 1)


def _scale(w: Workload, layout: Layout, now: Layout) -> float:
    here, there = formula_terms(w, layout), formula_terms(w, now)
    if here and there:
        return sum(t.mid for t in here) / sum(t.mid for t in there)
    if w.kind == "sim" and w.splits:
        return now.gpus / layout.gpus
    return 1.0  # copies: every GPU holds the whole


def _spread(w: Workload, peak: float, basis: str, notes: list[str]) -> tuple[float, float]:
    match = lookup(w.text("source_gpu")) if w.has("source_gpu") else None
    if match and match.gpu and peak > 0.95 * match.gpu.visible_bytes:
        notes.append(f"the {match.gpu.name} was full: the need may be larger than what was seen")
        return 1.0, 1.25
    return (1.0, 1.05) if basis == "measured" else (0.85, 1.15)


def floor_gib(w: Workload) -> tuple[float, str]:
    """Where a kind of work starts: LLM and diffusion 24 GB, classic CNN 12 GB."""
    if w.family in ("llm", "diffusion"):
        return 24.0, "LLM and diffusion work starts at 24 GB"
    if w.family == "cnn" and w.training:
        return 12.0, "CNN training starts at 12 GB"
    return 0.0, ""


def smallest(w: Workload) -> Estimate | None:
    """The need on one GPU, or in the layout that is used now."""
    for layout in layouts(w, 1):
        return estimate(w, layout)
    return None


__all__ = ["GIB", "estimate", "floor_gib", "formula_terms", "layouts", "smallest"]
