"""Training and serving transformers: the terms of F1 to F5 for one layout."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuferry.audit.estimate import formulas as f
from gpuferry.audit.estimate import states
from gpuferry.audit.estimate.terms import Layout, Term
from gpuferry.audit.estimate.transformer import Shape, shape_of
from gpuferry.audit.read.workload import Workload

# They compute the logits of the last token only.
_SERVERS = (
    "vllm", "sglang", "tensorrt", "tgi", "text-generation-inference", "lmdeploy", "llama.cpp",
    "ollama", "exllama", "mlc",
)  # fmt: skip
# PyTorch keeps more than it uses: blocks are rounded, and split ones cannot be joined.
FRAGMENTATION = (0.0, 0.05, 0.12)
# Where the vocabulary is not given, 32,000 (Llama 2, Mistral) is the least that is usual, and
# 152,064 (Qwen2) the most but for Gemma's.
LARGE_VOCAB = 152064


def training(w: Workload, layout: Layout) -> Iterator[Term]:
    """One GPU of a training or fine-tuning run."""
    shape = shape_of(w)
    model_states = list(states.training_states(w, shape, layout))
    yield from model_states
    kept = list(_activations(w, shape, layout))
    yield from kept
    copy, how = states.update_peak(w, shape, layout)
    beyond = max(0.0, copy - sum(term.mid for term in kept))
    if beyond:
        yield Term("optimizer step", "F5", 0.0, beyond / 2, beyond, f"{how}, less activations")
    yield from overhead([*model_states, *kept], layout, w)


def _activations(w: Workload, shape: Shape, layout: Layout) -> Iterator[Term]:
    s, b = w.number("seq", 2048), w.number("batch", 1)
    precision = states.precision_of(w)
    width = 4.0 if precision in ("fp32", "tf32", "fp64") else 2.0
    method = states.method_of(w)
    recompute = w.text("recompute", "none")
    eager = w.text("attention", "flash") == "eager" and recompute == "none"
    # bitsandbytes keeps the input of a quantised matrix, a plain frozen matrix does not.
    frozen = method != "full" and states.weights_precision_of(w) not in f.QUANTISED
    rms = shape.gated
    sizes = (
        s, b, shape.hidden, shape.heads, shape.head_dim, shape.kv_heads, shape.intermediate,
    )  # fmt: skip

    def one(norm: float, *, freeze: bool, drop: bool) -> float:
        return f.layer_activations(
            *sizes, gated=shape.gated, eager=eager, norm_bytes=norm, dropout=drop,
            frozen=freeze, mlp_share=shape.mlp_share, width=width,
        )  # fmt: skip

    extra = 0.0
    if method != "full":
        # An adapter keeps its own input once and, with dropout, a copy and its mask.
        outer = shape.intermediate if w.text("lora_targets", "all") == "all" else 0.0
        extra = s * b * (width + 1) * (shape.hidden + outer) + s * b * width * shape.hidden * frozen
    # RMSNorm in PyTorch computes in fp32 and keeps its input and the result before scaling.
    low = one(width, freeze=frozen, drop=False) + extra / 2
    mid = one(8.0 if rms else width, freeze=frozen, drop=not rms) + extra
    high = 1.1 * one(10.0 if rms else 8.0, freeze=frozen, drop=True) + extra
    spread = 0.7 if shape.assumed else 1.0
    low, high = low * spread, high / spread
    layers = shape.layers / layout.pp * min(layout.pp, 2)  # 1F1B: the first stage keeps pp batches
    if recompute == "full":
        kept = f.checkpoint_activations(s, b, shape.hidden, layers, width) / layout.tp
        yield Term(
            "layer inputs", "F3", kept, kept, kept * 1.25,
            f"{width:g} s b h L, s {s:g}, b {b:g}, h {shape.hidden:g}, L {layers:g}",
        )  # fmt: skip
        how = "one layer, computed again (norms, attention, MLP)"
        yield Term("recomputed layer", "F3", low, mid, high, how).divided(layout.tp)
    else:
        per_token = mid / (s * b * shape.hidden)
        how = f"s {s:g} x b {b:g} x h {shape.hidden:g} x L {layers:g} x {per_token:.3g} B"
        term = Term("activations", "F3", low * layers, mid * layers, high * layers, how)
        yield term.divided(layout.tp)
    if shape.vocab:
        # Computed in pieces (8 in torchtune), only one piece's logits exist at a time.
        pieces = 8 if w.flag("chunked_loss") else 1
        low, mid, high = (value / pieces for value in f.logits(b, s, shape.vocab))
        if not w.has("vocab"):
            high *= LARGE_VOCAB / shape.vocab
        how = f"b {b:g} x s {s:g} x V {shape.vocab:g} x 4 to 12 B"
        how += f" / {pieces} pieces" if pieces > 1 else ""
        yield Term("logits and their gradient", "F3", low, mid, high, how).divided(layout.tp)


def serving(w: Workload, layout: Layout) -> Iterator[Term]:
    """One GPU of an inference server, or of a batch inference."""
    shape = shape_of(w)
    weights = list(states.base_weights(w, shape, layout))
    yield from weights
    tokens = w.number("context") or w.number("seq", 4096)
    sequences = w.number("concurrency") or w.number("batch", 1)
    each = f.BYTES[w.text("kv_precision", "bf16")]
    split = min(layout.tp, max(1.0, shape.kv_heads)) * layout.pp
    if shape.mla_rank:
        value = f.mla_cache(tokens, sequences, shape.layers, shape.mla_rank, shape.rope, each)
        how = (
            f"{sequences:g} x L {shape.layers:g} x ({shape.mla_rank:g} + {shape.rope:g}) x "
            f"{tokens:g} tokens x {each:g} B"
        )
        # Latents are not heads: every GPU of a tensor-parallel group keeps all of them.
        yield Term("KV cache (latent)", "F4", value, value, value, how).divided(layout.pp)
    else:
        value = f.kv_cache(
            tokens, sequences, shape.layers, shape.kv_heads, shape.head_dim, each,
            window=shape.window, full_layers=shape.full_layers,
        )  # fmt: skip
        how = (
            f"{sequences:g} x L {shape.layers:g} x {shape.kv_heads:g} heads x 2 x "
            f"{shape.head_dim:g} x {tokens:g} tokens x {each:g} B"
        )
        if shape.window:
            full = shape.layers if shape.full_layers is None else shape.full_layers
            how += f", {shape.layers - full:g} layers keep {shape.window:g}"
        # Whether a model of unknown shape shares key heads cannot be known: 8 is common.
        low = value / 8 if shape.assumed else value
        mid = value / 4 if shape.assumed else value
        yield Term("KV cache", "F4", low, mid, value, how).divided(split)
    step = min(tokens * sequences, 8192.0)
    work = step * 2 * (2 * shape.intermediate + 6 * shape.hidden)
    work += 4 * min(sequences, step) * shape.vocab
    how = f"{step:g} tokens in one pass x (2f + 6h) x 2 B + logits"
    yield Term("workspace", "F5", work / 2, work, 2 * work, how).divided(layout.tp)
    yield from _prompt_logits(w, shape, tokens, sequences, layout)
    if any(name in w.text("framework").lower() for name in ("vllm", "sglang", "tensorrt")):
        low, mid, high = 0.0, 0.5 * f.GIB, 1.3 * f.GIB
        yield Term("CUDA graphs", "F5", low, mid, high, "up to 1.3 GiB (vllm pull request 21489)")
    yield from overhead(weights, layout, w, share=0.25)


def _prompt_logits(
    w: Workload, shape: Shape, tokens: float, sequences: float, layout: Layout
) -> Iterator[Term]:
    """F3 for serving: 16-bit logits of the whole prompt with an fp32 copy, `6 b s V`.

    So did `generate()` of transformers before 4.45 (pull request 31292): 26 GiB for 30,000 tokens
    of Qwen2-0.5B. Servers compute those of the last token. Who names no framework gets it as the
    upper end, for one sequence.
    """
    framework = w.text("framework").lower()
    version = re.search(r"transformers\D{0,3}(\d+)\.(\d+)", framework)
    if any(name in framework for name in _SERVERS):
        return
    if version and (int(version[1]), int(version[2])) >= (4, 45):
        return
    value = 6.0 * tokens * shape.vocab
    if version:
        value *= sequences
        how = f"{sequences:g} x s {tokens:g} x V {shape.vocab:g} x 6 B (transformers before 4.45)"
        term = Term("logits of the prompt", "F3", value, value, value, how)
    else:
        how = f"0, or s {tokens:g} x V {shape.vocab:g} x 6 B with transformers before 4.45"
        term = Term("logits of the prompt", "F3", 0.0, 0.0, value, f"{how}: name the framework")
    yield term.divided(layout.tp)


def overhead(terms: list[Term], layout: Layout, w: Workload, share: float = 1.0) -> Iterator[Term]:
    """F5: context, communication, fragmentation."""
    low, mid, high = f.context(layout.gpus, w.text("framework"))
    how = "CUDA context" + (" and NCCL" if layout.gpus > 1 else "")
    yield Term("context", "F5", low, mid, high, how)
    total = sum(term.mid for term in terms) * share
    low, mid, high = (total * part for part in FRAGMENTATION)
    how = f"0 to {FRAGMENTATION[2] * share:.0%} of the above"
    yield Term("fragmentation", "F5", low, mid, high, how)
