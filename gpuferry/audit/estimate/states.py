"""F1 and F2 as terms: weights, gradients and optimizer of what is trained."""

from __future__ import annotations

from collections.abc import Iterator

from gpuferry.audit.estimate import formulas as f
from gpuferry.audit.estimate.terms import Layout, Term, exact
from gpuferry.audit.estimate.transformer import Shape
from gpuferry.audit.read.workload import Workload


def precision_of(w: Workload) -> str:
    """Precision of computing."""
    default = "fp32" if w.family in ("cnn", "other", "sim") else "bf16"
    return w.text("precision", default)


def weights_precision_of(w: Workload) -> str:
    """Precision of weights that are only read."""
    if w.has("weights_precision"):
        return w.text("weights_precision")
    if w.text("method") == "qlora":
        return "nf4"
    base = precision_of(w).removesuffix("-pure")
    return base if base in f.BYTES else "bf16"


def method_of(w: Workload) -> str:
    """full, lora or qlora."""
    return w.text("method", "lora" if w.has("lora_rank") else "full")


def trained(w: Workload, shape: Shape) -> float:
    """Parameters with gradients."""
    if w.has("trainable_params"):
        return w.number("trainable_params")
    if method_of(w) == "full":
        return shape.params
    return f.lora_params(
        w.number("lora_rank", 16), w.text("lora_targets", "all"), shape.layers, shape.hidden,
        shape.heads, shape.head_dim, shape.kv_heads, shape.intermediate, gated=shape.gated,
    )  # fmt: skip


def base_weights(w: Workload, shape: Shape, layout: Layout) -> Iterator[Term]:
    """F1: weights that are only read: inference, or the frozen part of LoRA."""
    precision = weights_precision_of(w)
    split = layout.tp * layout.pp
    if w.has("weights_bytes") and not w.has("weights_precision"):
        value = w.number("weights_bytes")
        yield exact("weights", "F1", value, "bytes in the safetensors headers", "measured").divided(
            split
        )
        return
    if precision in f.QUANTISED:
        value = f.quantised_weights(shape.params, shape.embeddings, precision)
        how = (
            f"({_b(shape.params)} - {_b(shape.embeddings)} embeddings) x {f.BYTES[precision]:.4g} B"
            f" + embeddings x 2 B"
        )
    else:
        value = f.weights(shape.params, precision)
        how = f"{_b(shape.params)} x {f.BYTES[precision]:g} B"
    share = split * (layout.dp if layout.zero >= 3 else 1)
    # Beside quantised matrices: scales, tables, parts left in 16 bits, copies while loading.
    low, mid, high = (1.0, 1.04, 1.25) if precision in f.QUANTISED else (1.0, 1.0, 1.0)
    term = Term("weights", "F1", low * value, mid * value, high * value, how)
    yield term.divided(share)


def training_states(w: Workload, shape: Shape, layout: Layout) -> Iterator[Term]:
    """F2: what is trained, split as the ZeRO stage says."""
    precision, optimizer = precision_of(w), w.text("optimizer", "adamw")
    lora = method_of(w) != "full"
    count = trained(w, shape) / (layout.tp * layout.pp)
    if lora:
        yield from base_weights(w, shape, layout)
    per_weight, per_gradient, per_state = f.state_bytes(precision, optimizer)
    shares = f.zero_share(layout.zero, layout.dp)
    offload = w.text("offload", "none")
    label = "adapter " if lora else ""
    values = ((f"{label}weights", per_weight), (f"{label}gradients", per_gradient))
    for (name, each), share in zip(values, shares, strict=False):
        if name.endswith("gradients") and w.flag("fused_gradients"):
            each, share = each, share / max(shape.layers, 1)
        value = 0.0 if offload == "all" else count * each * share
        # fp32 gradients in mixed precision: 18 instead of 16 bytes (F2).
        mixed = name.endswith("gradients") and precision in ("bf16", "fp16", "fp8")
        how = f"{_b(count)} x {each:g} B" + (f" x {share:.4g}" if share != 1 else "")
        how = "in host memory" if offload == "all" else how
        yield Term(name, "F2", value, value, value * (2 if mixed else 1), how)
    if offload == "none":
        paged = "paged" in optimizer
        value = count * per_state * shares[2]
        how = f"{_b(count)} x {per_state:g} B ({optimizer})"
        how += f" x {shares[2]:.4g}" if shares[2] != 1 else ""
        yield Term(f"{label}optimizer", "F2", 0 if paged else value, value, value, how)
    if layout.zero >= 3 and layout.dp > 1:
        each = min(2.0, f.BYTES[weights_precision_of(w)]) if lora else 2.0
        gathered = 2 * shape.largest_layer * each / layout.tp
        how = f"2 layers x {_b(shape.largest_layer)} x {each:.3g} B gathered"
        yield Term("gathered layers", "F2", gathered / 2, gathered, 2 * gathered, how)
    if lora and weights_precision_of(w) in f.QUANTISED:
        value = shape.largest_layer / 4 * 2
        how = "one matrix in 16 bits while it is used"
        yield Term("dequantised matrix", "F1", value, value, 4 * value, how)


def update_peak(w: Workload, shape: Shape, layout: Layout) -> tuple[float, str]:
    """F5: the copy that a foreach optimizer makes at `step()`, after activations are gone."""
    fused = w.flag("fused_gradients") or w.text("optimizer", "adamw") in ("sgd",)
    if fused or w.text("offload", "none") != "none":
        return 0.0, ""
    each = f.state_bytes(precision_of(w), w.text("optimizer", "adamw"))[0]
    each = max(each, 4.0) if not precision_of(w).endswith("-pure") else each
    count = trained(w, shape) / (layout.tp * layout.pp)
    share = f.zero_share(layout.zero, layout.dp)[2]
    return count * each * share, f"{_b(count)} x {each:g} B at step() (foreach; fused: none)"


def _b(count: float) -> str:
    return f"{count / 1e9:.4g}e9" if count >= 1e8 else f"{count / 1e6:.4g}e6"
