"""What a plan tells whoever pays: times that can be reached, and what is not known."""

from __future__ import annotations

import pytest

from gpuferry.audit.choose.plan import explain
from gpuferry.audit.estimate.terms import Layout
from gpuferry.audit.report import terminal
from tests.support.audit import LLAMA_8B, LLAMA_70B, decided, need, planned, row

FARM = {"kind": "render", "geometry": "2 GiB", "textures": "6 GiB", "samples": 500,
        "seconds_per_frame_now": 40, "source_gpu": "RTX 3090", "runs_per_month": 2}  # fmt: skip


def test_tensor_cores_and_hbm_render_nothing() -> None:
    """FP32 units follow from the data sheets; what missing ray cores cost is assumed."""
    took = {}
    for gpu in ("RTX 3090", "RTX 4090", "L40S", "A100 SXM 80GB", "H100 SXM", "B200 SXM"):
        chosen = decided(row(**FARM), {"gpu": gpu}).chosen
        assert chosen is not None
        assert chosen.seconds is not None
        took[gpu] = chosen.seconds[1] / 20000
    assert took["RTX 3090"] == pytest.approx(1)
    assert took["RTX 4090"] < took["L40S"] < 0.7
    assert 0.8 < took["B200 SXM"] < took["H100 SXM"] < 1.3
    assert took["A100 SXM 80GB"] > 1.5


@pytest.mark.parametrize(
    ("gpu", "images_s"), [("V100 SXM2 16GB", 1200), ("A100 SXM 80GB", 2470), ("H100 SXM", 2790)]
)
def test_a_cnn_reaches_the_share_of_the_peak_that_was_published(gpu: str, images_s: float) -> None:
    """ResNet-50, mixed precision; sources at work.MFU_CNN."""
    w = row(kind="train", family="cnn", params="25.6M", activations_m=11.1, batch=64, samples="1M",
            flops_per_sample="8.2e9", precision="fp16", runs_per_month=1)  # fmt: skip
    chosen = decided(w, {"gpu": gpu}).chosen
    assert chosen is not None
    assert chosen.seconds is not None
    quick, _, slow = chosen.seconds
    assert 0.98 * quick <= 1e6 / images_s <= 1.02 * slow


def test_a_cheaper_offer_is_refused_by_the_layout_that_comes_nearest() -> None:
    w = row(**LLAMA_70B, method="lora", lora_rank=16, batch=1, seq=2048, recompute="full",
            tokens="1M", runs_per_month=1)  # fmt: skip
    plan = planned([w], {"gpu": "A100 SXM 80GB", "gpus": 4, "price": 8},
                   {"gpu": "A100 SXM 80GB", "gpus": 2, "price": 1})  # fmt: skip
    ((_, why),) = explain(plan.decisions[0], plan.fleet).cheaper
    assert why.startswith("ZeRO-3 (FSDP) over 2: needs ")


def test_an_unknown_length_names_only_the_columns_that_are_missing() -> None:
    w = row(family="diffusion", params="2.6B", samples=40000, batch=1)
    notes = " ".join(decided(w, {"gpu": "A100 SXM 80GB"}).notes)
    assert "give run_time_now, or samples_per_s_now, or flops_per_sample" in notes


def test_a_run_slower_than_today_is_said_where_no_deadline_forbids_it() -> None:
    cells = {"kind": "sim", "cells": "1M", "run_time_now": "3 d", "source_gpu": "RTX 3090",
             "runs_per_month": 1}  # fmt: skip
    assert "slower than today" in " ".join(decided(row(**cells), {"gpu": "RTX A4000"}).notes)
    assert "slower than today" not in " ".join(decided(row(**cells), {"gpu": "RTX 4090"}).notes)


def test_a_vocabulary_that_is_not_given_widens_the_upper_end() -> None:
    known = {key: value for key, value in LLAMA_8B.items() if key != "vocab"}
    cells = {"method": "lora", "batch": 4, "seq": 2048}
    unknown, given = (
        decided(row(**shape, **cells), {"gpu": "B200 SXM"}) for shape in (known, LLAMA_8B)
    )
    assert unknown.need is not None
    assert given.need is not None
    assert unknown.need.high > given.need.high
    assert "vocab is not given" in " ".join(unknown.notes)


def test_a_workload_that_shares_another_machine_says_so_and_the_total_is_there() -> None:
    common = {"kind": "sim", "basis": "measured", "run_time_now": "10 h", "source_gpu": "L40S",
              "runs_per_month": 4}  # fmt: skip
    large = row(**common, id="large", peak_vram="40 GiB")
    small = row(**common, id="small", peak_vram="10 GiB")
    plan = planned([large, small], {"gpu": "L40S", "price": 1}, {"gpu": "A10", "price": 0.65})
    assert [server.offer.name for server in plan.servers] == ["1 x L40S"]
    (note,) = (text for text in plan.decisions[1].notes if text.startswith("shares"))
    assert note.startswith("shares gpu-1 (1 x L40S) instead of 1 x A10")
    assert not any(text.startswith("shares") for text in plan.decisions[0].notes)
    assert terminal.remarks(plan)[0] == "all servers: 80.00 EUR a month"


def test_molecular_dynamics_lies_between_fp32_and_bandwidth_and_a_flow_follows_bandwidth() -> None:
    cells = {"kind": "sim", "cells": "1M", "run_time_now": "100 h", "source_gpu": "RTX 3090",
             "runs_per_month": 1}  # fmt: skip
    flow, particles, double = (
        decided(row(**cells, **more), {"gpu": "A100 SXM 80GB"})
        for more in ({}, {"framework": "GROMACS 2025"}, {"needs_fp64": True})
    )
    took = [d.chosen.seconds for d in (flow, particles, double) if d.chosen and d.chosen.seconds]
    bandwidth, units = 936 / 2039, 35.6 / 19.5
    assert took[0] == pytest.approx((360e3 * bandwidth, 360e3 * bandwidth, 360e3 * units), rel=0.01)
    assert took[1][1] == pytest.approx(360e3 * (bandwidth * units) ** 0.5, rel=0.01)
    assert took[2][0] == pytest.approx(360e3 * units / 32, rel=0.01)  # 1/64 against 1/2
    assert "FP64 FLOPS" in double.time_how


def test_a_peak_scaled_to_fewer_gpus_holds_the_weights_and_the_note_is_of_the_layout() -> None:
    cells = {**LLAMA_70B, "method": "lora", "peak_vram": "61 GiB", "basis": "measured",
             "gpus_now": 4, "zero": 3, "source_gpu": "A100 SXM 80GB"}  # fmt: skip
    assert need(Layout(1), **cells).mid >= 70.6e9 * 2
    found = decided(row(**cells), {"gpu": "A100 SXM 80GB", "gpus": 4})
    assert found.chosen is not None
    assert found.chosen.need.mid == 61 * 2**30
    assert not any("scaled by" in note for note in found.notes)
