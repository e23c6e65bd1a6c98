"""F1 to F5: weights, model states, activations, KV cache, overheads. Pure arithmetic, in bytes.

P parameters, N GPUs, L layers, s tokens, b samples, h hidden size, a heads, d size of a head, k key
and value heads, f size of the MLP, V vocabulary, B bytes of an element.
"""

from __future__ import annotations

import math

GIB = 2**30

# NF4: 4 bits and one fp32 scale for 64 weights; double quantisation leaves 8 + 32/256 bits for 64
# (QLoRA, arXiv:2305.14314, section 3). int4: groups of 128 with 16-bit scale and zero point (GPTQ).
BYTES = {
    "fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0,
    "int4": 0.5 + 2.5 / 128, "nf4": 0.5 + 4 / 64, "nf4-dq": 0.5 + (1 + 4 / 256) / 64, "fp4": 0.5625,
}  # fmt: skip
QUANTISED = ("int8", "int4", "nf4", "nf4-dq", "fp4")

# State beside weights and gradients, bytes for a parameter: two moments in fp32 (Kingma 2015), in
# 8 bits (Dettmers 2022: 1 byte each), factored (Shazeer 2018: rows and columns, near nothing).
OPTIMIZER_BYTES = {
    "adamw": 8.0, "adamw-8bit": 2.0, "paged-adamw-8bit": 2.0, "adafactor": 0.05, "lion": 4.0,
    "muon": 4.0, "sgd-momentum": 4.0, "sgd": 0.0,
}  # fmt: skip


def weights(params: float, precision: str) -> float:
    """F1: `P x B`; all experts of a mixture count."""
    return params * BYTES[precision.removesuffix("-pure")]


def quantised_weights(params: float, embeddings: float, precision: str) -> float:
    """F1q: only the linear layers are quantised; embeddings and head stay in 16 bits.

    So do bitsandbytes, GPTQ and AWQ by default.
    """
    return (params - embeddings) * BYTES[precision] + embeddings * 2.0


def state_bytes(precision: str, optimizer: str) -> tuple[float, float, float]:
    """F2: bytes for a trained parameter of (weights, gradients, optimizer with master copy).

    fp32: 4 + 4 + state. Mixed: 2 + 2 + (4 + state), ZeRO (arXiv:1910.02054), section 3.1. Pure
    16 bit: 2 + 2 + state in 16 bits, no master copy.
    """
    state = OPTIMIZER_BYTES[optimizer]
    if precision in ("fp32", "tf32"):
        return 4.0, 4.0, state
    if precision == "fp64":
        return 8.0, 8.0, 2 * state
    if precision.endswith("-pure"):
        return 2.0, 2.0, state if "8bit" in optimizer else state / 2
    return 2.0, 2.0, 4.0 + state


def zero_share(stage: int, gpus: float) -> tuple[float, float, float]:
    """F2: the share of weights, gradients and optimizer that one of N GPUs keeps.

    ZeRO, section 5: stage 1 splits the optimizer, 2 also gradients, 3 also weights. Vector of the
    paper, P = 7.5e9, N = 64: 120, 31.4, 16.6, 1.9 GB.
    """
    return (
        1 / gpus if stage >= 3 else 1.0,
        1 / gpus if stage >= 2 else 1.0,
        1 / gpus if stage >= 1 else 1.0,
    )


def deepspeed_host_ram(params: float, gpus_per_node: int, nodes: int) -> float:
    """F2: host memory of one node with everything offloaded: `P max(4 G, 18 / nodes) x 1.5`.

    DeepSpeed's estimator; it must not grow with the number of nodes.
    """
    return params * max(4.0 * gpus_per_node, 18.0 / nodes) * 1.5


def layer_activations(
    s: float, b: float, h: float, a: float, d: float, k: float, f: float, *,
    gated: bool, eager: bool, norm_bytes: float = 2.0, dropout: bool = False,
    frozen: bool = False, mlp_share: float = 1.0, width: float = 2.0,
) -> float:  # fmt: skip
    """F3: bytes that one layer keeps for the backward pass, nothing recomputed.

    Korthikanti 2022 (arXiv:2205.05198), section 4.1, term by term, with the shapes of GQA and gated
    MLPs put in: norms `2 x 2h`; attention input 2h, Q `2ad`, K and V `2 x 2kd`, output `2ad`, its
    scores `5as` unless they are recomputed; MLP input 2h, then `2f + 2f` (activation, its input),
    with a gate `8f` (gate, up, activated gate, product); dropout masks 1 byte each. With a = k,
    d = h/a, f = 4h and dropout: `34 + 5as/h`. `frozen`: weights without gradients do not keep their
    inputs.
    """
    norms = 2 * norm_bytes * h
    attention = width * (h * (not frozen) + 2 * a * d + 2 * k * d)
    scores = (2 * width + 1) * a * s if eager else 0.0
    if gated:
        mlp = width * (3 * f + (f + h) * (not frozen))
    else:
        mlp = width * (f + (f + h) * (not frozen))
    masks = 2 * h if dropout else 0.0
    return s * b * (norms + attention + scores + mlp * mlp_share + masks)


def checkpoint_activations(
    s: float, b: float, h: float, layers: float, width: float = 2.0
) -> float:
    """F3, full recomputation: the input of every layer, `2 s b h L`."""
    return width * s * b * h * layers


def logits(b: float, s: float, vocab: float) -> tuple[float, float, float]:
    """F3: fp32 logits `4 b s V`; with their gradient 8; with the 16-bit copies of both 12."""
    return 4 * b * s * vocab, 8 * b * s * vocab, 12 * b * s * vocab


def kv_cache(
    tokens: float, sequences: float, layers: float, kv_heads: float, head_dim: float,
    bytes_each: float = 2.0, *, window: float = 0.0, full_layers: float | None = None,
    block: int = 16,
) -> float:  # fmt: skip
    """F4: `sum over layers of k (d_k + d_v) x tokens x B`, keys and values.

    Sliding layers keep `min(window, tokens)`; both are rounded up to the block of the paged cache.
    """
    full = layers if full_layers is None or not window else full_layers
    kept = math.ceil(tokens / block) * block
    slid = math.ceil(min(window or tokens, tokens) / block) * block
    per_token = kv_heads * 2 * head_dim * bytes_each
    return sequences * per_token * (full * kept + (layers - full) * slid)


def mla_cache(
    tokens: float,
    sequences: float,
    layers: float,
    rank: float,
    rope: float,
    bytes_each: float = 2.0,
) -> float:
    """F4, latent attention: `L (rank + rope) x tokens x B`, once, not for every head.

    DeepSeek-V2 (arXiv:2405.04434), section 2.1.3.
    """
    return sequences * layers * (rank + rope) * math.ceil(tokens / 16) * 16 * bytes_each


def context(gpus: int, framework: str = "") -> tuple[float, float, float]:
    """F5: CUDA context with the libraries' kernels, and NCCL's buffers for several GPUs.

    0.5 to 2 GiB and 1 to 2 GiB as users report them (ml-engineering; pytorch issues).
    """
    del framework
    more = (1.0, 1.5, 2.0) if gpus > 1 else (0.0, 0.0, 0.0)
    return (0.5 + more[0]) * GIB, (1.0 + more[1]) * GIB, (2.0 + more[2]) * GIB


def lora_params(
    rank: float, targets: str, layers: float, h: float, a: float, d: float, k: float, f: float,
    *, gated: bool,
) -> float:  # fmt: skip
    """F2: `rank x (in + out)` for every adapted matrix (Hu 2021, arXiv:2106.09685)."""
    q, kv = h + a * d, h + k * d
    attention = {"qv": q + kv, "attention": 2 * q + 2 * kv, "all": 2 * q + 2 * kv}[targets]
    mlp = (3 if gated else 2) * (h + f) if targets == "all" else 0.0
    return rank * layers * (attention + mlp)
