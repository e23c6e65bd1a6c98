"""Parameters of public models follow from their config.json; sizes as their authors state them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuferry.audit.read.shape import params_of_shape, shape_of_config

# (name, billions of parameters, billions that one token uses, the configuration's keys that matter)
MODELS: list[tuple[str, float, float, dict[str, Any]]] = [
    (
        "mixtral",
        46.7,
        12.9,
        {
            "model_type": "mixtral",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 14336,
            "vocab_size": 32000,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "hidden_act": "silu",
            "sliding_window": None,
            "tie_word_embeddings": False,
        },
    ),
    (
        "gemma2-9b",
        9.24,
        9.24,
        {
            "model_type": "gemma2",
            "hidden_size": 3584,
            "num_hidden_layers": 42,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 256,
            "intermediate_size": 14336,
            "vocab_size": 256000,
            "hidden_activation": "gelu_pytorch_tanh",
            "sliding_window": 4096,
        },
    ),
    (
        "qwen2.5-7b",
        7.6,
        7.6,
        {
            "model_type": "qwen2",
            "hidden_size": 3584,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "intermediate_size": 18944,
            "vocab_size": 152064,
            "hidden_act": "silu",
            "sliding_window": 131072,
            "use_sliding_window": False,
            "tie_word_embeddings": False,
        },
    ),
    (
        "phi3-mini",
        3.8,
        3.8,
        {
            "model_type": "phi3",
            "hidden_size": 3072,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "intermediate_size": 8192,
            "vocab_size": 32064,
            "hidden_act": "silu",
            "sliding_window": 2047,
            "tie_word_embeddings": False,
        },
    ),
    (
        "gpt2",
        0.124,
        0.124,
        {
            "model_type": "gpt2",
            "n_embd": 768,
            "n_layer": 12,
            "n_head": 12,
            "vocab_size": 50257,
            "n_positions": 1024,
        },
    ),
    (
        "falcon7b",
        7.0,
        7.0,
        {
            "model_type": "falcon",
            "hidden_size": 4544,
            "num_hidden_layers": 32,
            "num_attention_heads": 71,
            "vocab_size": 65024,
            "multi_query": True,
            "new_decoder_architecture": False,
        },
    ),
    (
        "falcon40b",
        41.8,
        41.8,
        {
            "model_type": "falcon",
            "hidden_size": 8192,
            "num_hidden_layers": 60,
            "num_attention_heads": 128,
            "num_kv_heads": 8,
            "vocab_size": 65024,
            "new_decoder_architecture": True,
        },
    ),
    (
        "gpt-oss-20b",
        20.9,
        3.6,
        {
            "model_type": "gpt_oss",
            "hidden_size": 2880,
            "num_hidden_layers": 24,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "intermediate_size": 2880,
            "vocab_size": 201088,
            "num_local_experts": 32,
            "num_experts_per_tok": 4,
            "hidden_act": "silu",
            "sliding_window": 128,
            "layer_types": [
                "sliding_attention",
                "full_attention",
                "sliding_attention",
                "full_attention",
                "sliding_attention",
                "full_attention",
                "sliding_attention",
                "full_attention",
                "sliding_attention",
                "full_attention",
                "sliding_attention",
                "full_attention",
                "sliding_attention",
                "full_attention",
                "sliding_attention",
                "full_attention",
                "sliding_attention",
                "full_attention",
                "sliding_attention",
                "full_attention",
                "sliding_attention",
                "full_attention",
                "sliding_attention",
                "full_attention",
            ],
            "tie_word_embeddings": False,
        },
    ),
    (
        "qwen3-30b-a3b",
        30.5,
        3.3,
        {
            "model_type": "qwen3_moe",
            "hidden_size": 2048,
            "num_hidden_layers": 48,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "intermediate_size": 6144,
            "moe_intermediate_size": 768,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "vocab_size": 151936,
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            "decoder_sparse_step": 1,
        },
    ),
    (
        "gemma3-27b",
        27.0,
        27.0,
        {
            "model_type": "gemma3",
            "text_config": {
                "model_type": "gemma3_text",
                "hidden_size": 5376,
                "num_hidden_layers": 62,
                "num_attention_heads": 32,
                "num_key_value_heads": 16,
                "head_dim": 128,
                "intermediate_size": 21504,
                "vocab_size": 262208,
                "sliding_window": 1024,
                "sliding_window_pattern": 6,
            },
        },
    ),
    (
        "opt1.3",
        1.3,
        1.3,
        {
            "model_type": "opt",
            "hidden_size": 2048,
            "num_hidden_layers": 24,
            "num_attention_heads": 32,
            "ffn_dim": 8192,
            "vocab_size": 50272,
        },
    ),
    (
        "t5-3b",
        2.85,
        2.85,
        {
            "model_type": "t5",
            "d_model": 1024,
            "num_layers": 24,
            "num_decoder_layers": 24,
            "num_heads": 32,
            "d_kv": 128,
            "d_ff": 16384,
            "vocab_size": 32128,
            "feed_forward_proj": "relu",
        },
    ),
    (
        "pythia-6.9",
        6.86,
        6.86,
        {
            "model_type": "gpt_neox",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "intermediate_size": 16384,
            "vocab_size": 50432,
            "hidden_act": "gelu",
            "tie_word_embeddings": False,
        },
    ),
    (
        "bloom-7b1",
        7.07,
        7.07,
        {
            "model_type": "bloom",
            "n_embed": 4096,
            "hidden_size": 4096,
            "n_layer": 30,
            "n_head": 32,
            "vocab_size": 250880,
        },
    ),
    (
        "dsv2lite",
        15.7,
        2.4,
        {
            "model_type": "deepseek_v2",
            "hidden_size": 2048,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "num_experts_per_tok": 6,
            "first_k_dense_replace": 1,
            "kv_lora_rank": 512,
            "q_lora_rank": None,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "vocab_size": 102400,
            "hidden_act": "silu",
            "tie_word_embeddings": False,
        },
    ),
    (
        "llama4-scout",
        109.0,
        17.0,
        {
            "model_type": "llama4",
            "text_config": {
                "model_type": "llama4_text",
                "hidden_size": 5120,
                "num_hidden_layers": 48,
                "num_attention_heads": 40,
                "num_key_value_heads": 8,
                "head_dim": 128,
                "intermediate_size": 8192,
                "intermediate_size_mlp": 16384,
                "num_local_experts": 16,
                "num_experts_per_tok": 1,
                "vocab_size": 202048,
                "hidden_act": "silu",
                "interleave_moe_layer_step": 1,
                "tie_word_embeddings": False,
            },
        },
    ),
    (
        "mistral7b",
        7.24,
        7.24,
        {
            "model_type": "mistral",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 14336,
            "vocab_size": 32000,
            "hidden_act": "silu",
            "sliding_window": 4096,
            "tie_word_embeddings": False,
        },
    ),
    (
        "bert-large",
        0.335,
        0.335,
        {
            "model_type": "bert",
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
            "vocab_size": 30522,
            "hidden_act": "gelu",
        },
    ),
]


@pytest.mark.parametrize(("name", "total", "active", "config"), MODELS, ids=lambda v: str(v)[:16])
def test_parameters_follow_from_the_shape(
    name: str, total: float, active: float, config: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    found, used = params_of_shape(shape_of_config(path))
    assert found / 1e9 == pytest.approx(total, rel=0.05), name
    # Embeddings are looked up, not multiplied: authors leave them out of the active ones.
    assert used / 1e9 == pytest.approx(active, rel=0.2), name


def test_layers_that_keep_a_window_are_counted(tmp_path: Path) -> None:
    for name, full in (
        ("gemma2-9b", 21),
        ("gpt-oss-20b", 12),
        ("gemma3-27b", 10),
        ("phi3-mini", 0),
    ):
        config = next(m[3] for m in MODELS if m[0] == name)
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert shape_of_config(tmp_path / "config.json")["full_layers"] == full


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"hidden_size": 5}', "\x00", '{"num_hidden_layers": -1}']
)
def test_other_files_are_no_configuration(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"JSON|names no layers"):
        shape_of_config(tmp_path / "config.json")
