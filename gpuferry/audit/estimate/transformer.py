"""The shape of a transformer, as given or as usual for its number of parameters."""

from __future__ import annotations

from dataclasses import dataclass

from gpuferry.audit.read.workload import Workload


@dataclass(frozen=True)
class Shape:
    """Sizes of a transformer; `assumed` when only the number of parameters is known."""

    params: float
    active: float
    layers: float
    hidden: float
    heads: float
    kv_heads: float
    head_dim: float
    intermediate: float
    vocab: float
    gated: bool
    window: float
    full_layers: float | None
    mla_rank: float
    rope: float
    mlp_share: float
    embeddings: float
    assumed: bool

    @property
    def largest_layer(self) -> float:
        """Parameters that ZeRO-3 gathers at once: one layer, or the embeddings."""
        return max((self.params - self.embeddings) / max(self.layers, 1), self.embeddings / 2)


def shape_of(w: Workload) -> Shape:
    """The shape of a workload, worked out once."""
    if w.shape is None:
        w.shape = _shape(w)
    found: Shape = w.shape
    return found


def _shape(w: Workload) -> Shape:
    """Read the shape; what is missing follows from the rest.

    Where only `params` is known: `P = 12 L h^2` (Kaplan 2020, section 2.1) and h / L = 128, the
    proportions of public models from 1 to 70 billion parameters.
    """
    params = w.number("params")
    assumed = not w.has("layers", "hidden")
    hidden = w.number("hidden") or round((128 * params / 12) ** (1 / 3) / 128) * 128.0 or 128.0
    layers = w.number("layers") or max(1.0, round(params / (12 * hidden**2)))
    layers += w.number("decoder_layers")
    heads = w.number("heads") or max(1.0, hidden / 128)
    kv = w.number("kv_heads") or heads
    gated = w.flag("gated_mlp", kv < heads or assumed)
    vocab = w.number("vocab") or 32000.0
    intermediate = w.number("intermediate") or (8 / 3 if gated else 4) * hidden
    share = 1.0
    if w.has("experts"):
        # A token passes through the active experts only, so their activations are kept.
        active = w.number("experts_active", 2) + w.number("experts_shared")
        share = active * (w.number("expert_intermediate") or intermediate) / intermediate
    full = None
    if w.has("full_layers"):
        full = w.number("full_layers")
    elif w.has("sliding_window"):
        every = w.number("full_attention_every")
        full = layers // every if every else 0.0
    tables = 1 if w.flag("tied_embeddings") else 2
    return Shape(
        params=params,
        active=w.number("active_params") or params,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv,
        head_dim=w.number("head_dim") or hidden / heads,
        intermediate=intermediate,
        vocab=vocab,
        gated=gated,
        window=w.number("sliding_window"),
        full_layers=full,
        mla_rank=w.number("kv_lora_rank"),
        rope=w.number("rope_dim", 64),
        mlp_share=share,
        embeddings=min(vocab * hidden * tables, 0.5 * params),
        assumed=assumed,
    )
