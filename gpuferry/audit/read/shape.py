"""A model's shape from its own files: `config.json`, and the headers of safetensors files."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

from gpuferry.audit.read.cells import Problem
from gpuferry.audit.read.workload import Known, Workload

# Names of the same thing in the configurations of public model families.
_KEYS: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"),
    "decoder_layers": ("num_decoder_layers", "decoder_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": (
        "num_attention_heads",
        "n_head",
        "n_heads",
        "num_heads",
        "encoder_attention_heads",
    ),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_kv_heads"),
    "head_dim": ("head_dim", "d_kv"),
    "intermediate": (
        "intermediate_size",
        "n_inner",
        "ffn_dim",
        "d_ff",
        "ffn_hidden_size",
        "encoder_ffn_dim",
    ),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "experts": ("num_local_experts", "n_routed_experts", "num_experts"),
    "experts_active": ("num_experts_per_tok", "moe_topk"),
    "experts_shared": ("n_shared_experts",),
    "expert_intermediate": ("moe_intermediate_size",),
    "dense_layers": ("first_k_dense_replace",),
    "kv_lora_rank": ("kv_lora_rank",),
    "q_lora_rank": ("q_lora_rank",),
    "rope_dim": ("qk_rope_head_dim",),
    "nope_dim": ("qk_nope_head_dim",),
    "v_dim": ("v_head_dim",),
}
_GATED = ("silu", "swish", "swiglu", "geglu", "gelu_pytorch_tanh_gated", "gated-gelu")
_UNGATED_TYPES = (
    "gpt2", "gpt_neo", "gpt_neox", "gptj", "opt", "bloom", "falcon", "phi", "bert", "roberta",
    "gpt_bigcode", "starcoder2", "mpt", "t5", "mt5", "bart", "mbart", "whisper", "codegen",
    "stablelm_alpha",
)  # fmt: skip
_TIED_TYPES = (
    "gpt2", "gemma", "gemma2", "gemma3", "gemma3_text", "bloom", "opt", "t5", "bert", "falcon",
)  # fmt: skip
_ENCODER_DECODER = ("t5", "mt5", "longt5", "bart", "mbart", "pegasus", "marian", "whisper")
_GATED_TYPES = ("gemma", "gemma2", "gemma3", "gemma3_text")
DTYPES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1,
    "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "U16": 2, "U32": 4, "U64": 8, "F4": 0.5,
}  # fmt: skip
_HEADER_LIMIT = 100 * 2**20  # the format's own limit


def fill_from_files(workload: Workload, folder: Path, where: str) -> list[Problem]:
    """Add what `config` and `weights` say; what the table says itself has to agree."""
    problems: list[Problem] = []
    for column, read in (("config", shape_of_config), ("weights", shape_of_weights)):
        if not workload.has(column):
            continue
        path = folder / workload.text(column)
        try:
            found = read(path)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            accept = (
                "config.json of the model" if column == "config" else ".safetensors, or a folder"
            )
            problems.append(Problem(where, column, workload.text(column), why, accept))
            continue
        for name, value in found.items():
            given = workload.values.get(name)
            if given is None:
                note = f"{name} from {path.name}"
                workload.values[name] = Known(value, "measured", None, note)
            elif isinstance(value, int | float) and not math.isclose(
                float(given.value), value, rel_tol=0.05
            ):
                why = f"contradicts {path.name}, which says {value:g}; remove one of them"
                problems.append(Problem(where, name, f"{float(given.value):g}", why))
    if workload.has("layers", "hidden") and not workload.has("params"):
        total, active = params_of_shape({k: v.value for k, v in workload.values.items()})
        if total:
            workload.values["params"] = Known(total, "estimated", None, "params from the shape")
        if active and active < total:
            workload.values.setdefault("active_params", Known(active, "estimated"))
    return problems


def shape_of_config(path: Path) -> dict[str, Any]:
    """Columns that a `config.json` fills.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no configuration of a transformer.
    """
    config = _read_config(path)
    found = {}
    for column, keys in _KEYS.items():
        values = [v for k in keys if _is_size(v := config.get(k))]
        if values:
            found[column] = values[0]
    if "layers" not in found or "hidden" not in found:
        raise ValueError("names no layers and hidden size; it is not a transformer's config.json")
    kind = str(config.get("model_type", "")).lower()
    _family(config, kind, found)
    _attention(config, kind, found)
    _mlp(config, kind, found)
    return found


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8-sig"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("is no JSON") from None
    if not isinstance(config, dict):
        raise ValueError("is no JSON object")
    # Models for several kinds of input keep the language part's shape one level deeper.
    inner = config.get("text_config") or config.get("llm_config")
    return {**config, **inner} if isinstance(inner, dict) else config


def _is_size(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _family(config: dict[str, Any], kind: str, found: dict[str, Any]) -> None:
    """What a family has without its configuration naming it."""
    if kind in _ENCODER_DECODER:
        found.setdefault("decoder_layers", found["layers"])
    elif not config.get("is_encoder_decoder"):
        found.pop("decoder_layers", None)
    if kind.startswith("llama4"):
        found["experts_shared"] = 1
    if config.get("tie_word_embeddings") is not None:
        found["tied_embeddings"] = bool(config["tie_word_embeddings"])
    elif kind in _TIED_TYPES:
        found["tied_embeddings"] = True


def _attention(config: dict[str, Any], kind: str, found: dict[str, Any]) -> None:
    if kind == "falcon" and not config.get("new_decoder_architecture"):
        found["kv_heads"] = 1 if config.get("multi_query", True) else found.get("heads", 1)
    elif config.get("multi_query"):
        found["kv_heads"] = 1
    found.setdefault("kv_heads", found.get("heads", 1))
    window = config.get("sliding_window")
    if not isinstance(window, int) or config.get("use_sliding_window") is False:
        return
    found["sliding_window"] = window
    types = config.get("layer_types")
    pattern = config.get("sliding_window_pattern")
    layers = int(found["layers"])
    if isinstance(types, list):
        full = sum(t == "full_attention" for t in types)
        found["full_layers"] = full
    elif isinstance(pattern, int) and pattern > 1:
        found["full_layers"] = layers // pattern
    elif kind == "gemma2":
        found["full_layers"] = layers // 2
    else:
        found["full_layers"] = 0


def _mlp(config: dict[str, Any], kind: str, found: dict[str, Any]) -> None:
    act = str(config.get("hidden_act") or config.get("hidden_activation") or "").lower()
    if kind in _UNGATED_TYPES:
        found["gated_mlp"] = str(config.get("feed_forward_proj", "")).startswith("gated")
    else:
        found["gated_mlp"] = act in _GATED or kind in _GATED_TYPES
    if "intermediate" not in found:
        found["intermediate"] = 4 * found["hidden"]


def shape_of_weights(path: Path) -> dict[str, Any]:
    """Parameters and bytes from safetensors headers; the tensors themselves are not read.

    Raises:
        OSError: a file cannot be read.
        ValueError: no safetensors file, or a damaged one.
    """
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise ValueError("holds no .safetensors file")
    params = size = 0.0
    packed = False
    for file in files:
        for tensor in read_header(file).values():
            elements = math.prod(tensor["shape"])
            params += elements
            size += elements * DTYPES[tensor["dtype"]]
            packed |= tensor["dtype"] in ("U8", "I32", "U32") and elements > 1_000_000
    found: dict[str, Any] = {"weights_bytes": size}
    if not packed:  # quantised tensors hold several parameters in one element
        found["params"] = params
    return found


def read_header(path: Path) -> dict[str, dict[str, Any]]:
    """Name to dtype, shape and offsets of every tensor in a safetensors file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged, cut off, or of another format.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        if len(head) < 8:
            raise ValueError(f"{path.name} is cut off: {size} bytes")
        (length,) = struct.unpack("<Q", head)
        if length > min(_HEADER_LIMIT, size - 8):
            raise ValueError(f"{path.name} is cut off, or is no safetensors file")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise ValueError(
                f"{path.name} is no safetensors file (its header is no JSON)"
            ) from None
    if not isinstance(header, dict):
        raise ValueError(f"{path.name} is no safetensors file")
    header.pop("__metadata__", None)
    end = 0
    for name, tensor in header.items():
        try:
            shape, (start, stop) = tensor["shape"], tensor["data_offsets"]
            fits = tensor["dtype"] in DTYPES and all(isinstance(n, int) and n >= 0 for n in shape)
        except (TypeError, KeyError, ValueError):
            fits = False
        if not fits or not 0 <= start <= stop:
            raise ValueError(f"{path.name}: the entry {name[:60]!r} of its header is damaged")
        end = max(end, stop)
    if 8 + length + end > size:
        raise ValueError(
            f"{path.name} is cut off: {size} bytes, its header describes {8 + length + end}"
        )
    return header


def params_of_shape(shape: dict[str, Any]) -> tuple[float, float]:
    """(all, used by one token) parameters of a transformer; 0 where the shape is not complete.

    Attention `h a d + 2 h k d + a d h`, MLP `2 h f` or `3 h f` with a gate, embeddings `V h` once
    or twice; norms and biases are left out (below 0.1 %). MLA: DeepSeek-V2 report, section 2.1.
    """

    def get(name: str, default: float = 0.0) -> float:
        return float(shape.get(name) or default)

    h, layers, heads = get("hidden"), get("layers"), get("heads")
    if not (h and layers and heads):
        return 0.0, 0.0
    d = get("head_dim") or h / heads
    kv = get("kv_heads") or heads
    if get("kv_lora_rank"):
        rank, rope, nope = get("kv_lora_rank"), get("rope_dim"), get("nope_dim", 128)
        v_dim, q_rank = get("v_dim", 128), get("q_lora_rank")
        q = h * q_rank + q_rank * heads * (nope + rope) if q_rank else h * heads * (nope + rope)
        attention = q + h * (rank + rope) + rank * heads * (nope + v_dim) + heads * v_dim * h
    else:
        attention = 2 * h * heads * d + 2 * h * kv * d
    f = get("intermediate") or 4 * h
    matrices = 3 if shape.get("gated_mlp", kv < heads) else 2
    experts = get("experts")
    dense = get("dense_layers") if experts else layers
    mlp_dense = matrices * h * f
    total = layers * attention + dense * mlp_dense
    active = total
    if experts:
        one = matrices * h * (get("expert_intermediate") or f)
        shared = get("experts_shared")
        total += (layers - dense) * (one * (experts + shared) + h * experts)
        active += (layers - dense) * (one * (get("experts_active", 2) + shared) + h * experts)
    # A decoder behind an encoder has a second attention, to what the encoder made.
    behind = get("decoder_layers") * (2 * attention + mlp_dense)
    total, active = total + behind, active + behind
    embeddings = get("vocab") * h * (1 if shape.get("tied_embeddings") else 2)
    return total + embeddings, active + embeddings
