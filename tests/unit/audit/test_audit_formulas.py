"""Every formula gives the value that its source publishes."""

from __future__ import annotations

import pytest

from gpuferry.audit.estimate import formulas as f
from gpuferry.audit.estimate import work

GIB = 2**30


@pytest.mark.parametrize(("stage", "gb"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_f2_zero_paper(stage: int, gb: float) -> None:
    states = f.state_bytes("fp16", "adamw")
    shares = f.zero_share(stage, 64)
    total = 7.5e9 * sum(each * share for each, share in zip(states, shares, strict=True))
    assert total / 1e9 == pytest.approx(gb, rel=0.03)


@pytest.mark.parametrize(
    ("precision", "optimizer", "each"),
    [("fp32", "adamw", 16), ("bf16", "adamw", 16), ("bf16", "sgd-momentum", 12), ("bf16", "sgd", 8),
     ("bf16", "adamw-8bit", 10), ("bf16-pure", "adamw", 8), ("bf16-pure", "adamw-8bit", 6)],
)  # fmt: skip
def test_f2_bytes_for_a_parameter(precision: str, optimizer: str, each: float) -> None:
    assert sum(f.state_bytes(precision, optimizer)) == each


def test_f2_offload_does_not_grow_with_the_number_of_nodes() -> None:
    assert f.deepspeed_host_ram(7e9, 8, 4) <= f.deepspeed_host_ram(7e9, 8, 1)
    assert f.deepspeed_host_ram(7e9, 8, 4) / 1e9 == pytest.approx(336, rel=0.01)


def test_f3_layer_of_the_activation_paper() -> None:
    s, b, h, a, layers = 2048, 1, 4096, 32, 32
    full = f.layer_activations(s, b, h, a, h / a, a, 4 * h, gated=False, eager=True, dropout=True)
    flash = f.layer_activations(s, b, h, a, h / a, a, 4 * h, gated=False, eager=False, dropout=True)
    assert full == s * b * h * (34 + 5 * a * s / h)
    assert flash == 34 * s * b * h
    assert full * layers / GIB == pytest.approx(28.5, rel=0.01)
    assert flash * layers / GIB == pytest.approx(8.5, rel=0.01)
    assert f.checkpoint_activations(s, b, h, layers) / GIB == pytest.approx(0.5, rel=0.01)


def test_f3_logits() -> None:
    assert f.logits(1, 32768, 128256)[0] / GIB == pytest.approx(15.66, rel=0.001)


@pytest.mark.parametrize(
    ("tokens", "layers", "heads", "dim", "gib"),
    [(8192, 32, 8, 128, 1.0), (32768, 80, 8, 128, 10.0), (32768, 36, 8, 128, 4.5),
     (4096, 32, 32, 128, 2.0)],
)  # fmt: skip
def test_f4_cache(tokens: int, layers: int, heads: int, dim: int, gib: float) -> None:
    assert f.kv_cache(tokens, 1, layers, heads, dim) / GIB == pytest.approx(gib)


def test_f4_latent_and_sliding_attention() -> None:
    assert f.mla_cache(1, 1, 61, 512, 64) / 16 == 70272
    assert f.mla_cache(32768, 1, 61, 512, 64) / GIB == pytest.approx(2.14, rel=0.01)
    # Gemma-like: 5 of 6 layers keep 1024 tokens.
    mixed = f.kv_cache(32768, 1, 48, 8, 256, window=1024, full_layers=8)
    assert mixed == 2 * 8 * 256 * 2 * (8 * 32768 + 40 * 1024)
    assert f.kv_cache(17, 1, 1, 1, 1, 1) == 2 * 32  # whole blocks


def test_f8_time() -> None:
    flops = work.training_flops(7e9, 1e9, recompute=False, frozen=False)
    assert work.seconds(flops, 8, 312, 0.4) / 3600 == pytest.approx(11.7, rel=0.01)
    assert work.seconds(flops, 8, 989, 0.4) / 3600 == pytest.approx(3.7, rel=0.01)
    assert work.training_flops(1, 1, recompute=True, frozen=True) == 6


@pytest.mark.parametrize(
    ("gbit", "seconds"), [(10, 12.8), (25, 5.1), (100, 1.28), (200, 0.64), (400, 0.32)]
)
def test_f9_gradients_over_a_link(gbit: float, seconds: float) -> None:
    sent = work.all_reduce_bytes(8e9, 10**9)  # 2e9 fp32 gradients, many GPUs: 16 GB
    assert work.transfer_bound(sent, gbit * 1e9 / 8) == pytest.approx(seconds, rel=0.01)


def test_f9_two_billion_parameters_need_400_gbit() -> None:
    needed = work.link_needed(16e9, 0.42) * 8 / 1e9
    assert 300 < needed <= 400


def test_f10_to_f13() -> None:
    assert work.cores(8, 2) == 28
    assert work.feed_bytes_s(1, 2790, 110e3) / 1e9 == pytest.approx(0.4, rel=0.01)
    assert work.capacity_bytes(80, 0, 0, 0) == pytest.approx(100)
    large = work.transfer_seconds(1e12, 1.25e9, 10)
    small = work.transfer_seconds(1e9, 1.25e9, 1_000_000)
    assert large == pytest.approx(1000, rel=0.01)
    assert small > 1800  # a million files: pack them
    assert work.worth_upgrading(2.0, 1.5, brings_feature=True)
    assert not work.worth_upgrading(1.19, 1.5, brings_feature=True)
    assert not work.worth_upgrading(3.0, 1.5, brings_feature=False)


def test_weights_of_quantised_models() -> None:
    assert f.weights(8e9, "bf16") == 16e9
    # QLoRA: 0.127 bits a parameter for the scales with double quantisation.
    assert f.BYTES["nf4-dq"] * 8 == pytest.approx(4.127, abs=0.001)
    assert f.BYTES["nf4"] * 8 == 4.5
    assert f.quantised_weights(10e9, 1e9, "int8") == 9e9 + 2e9
