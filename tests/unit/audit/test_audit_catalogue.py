"""The catalogue is sound, finds itself when it is not, and never guesses a name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuferry.audit.catalogue.load import catalogue, self_test
from gpuferry.audit.catalogue.match import lookup

GPUS = {gpu.name: gpu for gpu in catalogue()}


def test_the_catalogue_is_sound_and_every_row_names_its_source() -> None:
    assert len(GPUS) == 67
    assert self_test(tuple(GPUS.values())) == []
    assert all(gpu.source and gpu.visible_source for gpu in GPUS.values())


# Each is an error that a public table has (see the catalogue's sources).
@pytest.mark.parametrize(
    ("name", "wrong", "sentence"),
    [
        ("RTX 4090", {"fp16_tflops": 82.6}, "formula 165"),  # shader rate
        ("RTX A6000", {"fp16_tflops": 38.7}, "formula 154"),
        ("B200 SXM", {"visible_mib": 90 * 1024}, "visible of 180 GB"),  # one die
        ("A100 SXM 80GB", {"fp8_tflops": 624.0}, "FP8 does not go with 8.0"),
        ("T4", {"bf16_tflops": 65.0}, "BF16 does not go with 7.5"),
        ("H100 SXM", {"fp8_tflops": 3958.0}, "not twice"),  # sparse
        ("L4", {"source": ""}, "lacks its source"),
        ("L40S", {"name": "L40"}, "share a name"),
    ],
)
def test_errors_of_public_tables_are_found(
    name: str, wrong: dict[str, object], sentence: str
) -> None:
    gpus = tuple(replace(g, **wrong) if g.name == name else g for g in GPUS.values())  # type: ignore[arg-type]
    assert any(sentence in fault for fault in self_test(gpus)), self_test(gpus)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NVIDIA L40S", "L40S"), ("l4", "L4"), ("NVIDIA L40", "L40"), ("Tesla T4", "T4"),
        ("RTX A4000", "RTX A4000"), ("NVIDIA A40", "A40"), ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"), ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"), ("RTX6000Ada", "RTX 6000 Ada"),
        ("RTXA6000", "RTX A6000"), ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("A16", "A16 (per GPU)"),
        ("NVIDIA L4 (simulated)", "L4"), ("Instinct MI300X", "MI300X"),
        ("GB200", "GB200 (per GPU)"), ("GB200 NVL72", "GB200 (per GPU)"),
        ("L40 s", "L40S"), ("L40-S", "L40S"), ("h100nvl", "H100 NVL"), ("H100sxm5", "H100 SXM"),
        ("a100_80g_pcie", "A100 PCIe 80GB"), ("A100-pcie-80", "A100 PCIe 80GB"),
        ("MI 300X", "MI300X"), ("\uff28100 NVL", "H100 NVL"), ("V100-SXM2-16", "V100 SXM2 16GB"),
        ("Tesla V100-PCIE-32GB", "V100 PCIe 32GB"), ("4090", "RTX 4090"),
        ("RTX 4070 Ti", "RTX 4070 Ti"),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX 2080 Ti"), ("RTX 8000", "Quadro RTX 8000"),
    ],
)  # fmt: skip
def test_names_are_found_by_whole_words(text: str, name: str) -> None:
    found = lookup(text).gpu
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "text",
    ["T400", "RTX 4090 D", "RTX 5090 D V2", "A10G", "RTX 4070 SUPER", "RTX 6000D", "H100 64GB",
     "L400", "NVIDIA GeForce RTX 4090 Laptop GPU", "H100 PCIe 96GB", "", "GPU", "NVIDIA",
     "A100X", "A800", "V100S", "L40S-48Q", "RTX 4090 48GB", "RTX PRO 5000 72GB", "RTX 3080 Ti"],
)  # fmt: skip
def test_other_gpus_are_unknown_rather_than_guessed(text: str) -> None:
    assert lookup(text).gpu is None


@pytest.mark.parametrize(
    ("text", "least"), [("A100", 4), ("H100", 3), ("RTX 6000", 4), ("A100-80GB", 2), ("V100", 4),
     ("V100-32", 2), ("H100 80GB", 2), ("H100-80", 2), ("A 100", 4)],
)  # fmt: skip
def test_a_name_that_leaves_several_open_lists_them(text: str, least: int) -> None:
    match = lookup(text)
    assert match.gpu is None
    assert len(match.candidates) >= least


@pytest.mark.parametrize(
    "text", ["8xH100 SXM", "2x A100 80GB", "H100 NVL x 8", "H100 PCIe \u00d78"]
)
def test_a_number_of_gpus_in_a_name_is_sent_to_its_own_column(text: str) -> None:
    match = lookup(text)
    assert match.gpu is None
    assert "has its own column" in match.why
    assert match.accepted


def test_a100_80gb_never_means_40gb() -> None:
    assert all(gpu.vram_gb == 80 for gpu in lookup("A100-80GB").candidates)


def test_what_a_chip_can_do_follows_from_its_compute_capability() -> None:
    assert not GPUS["T4"].supports("bf16")
    assert not GPUS["A100 SXM 80GB"].supports("fp8")
    assert GPUS["L4"].supports("fp8")
    assert not GPUS["H100 SXM"].supports("fp4")
    assert GPUS["RTX 5090"].supports("fp4")
    assert {n for n in ("A100 SXM 80GB", "H100 SXM", "B200 SXM") if GPUS[n].full_fp64} == {
        "A100 SXM 80GB", "H100 SXM", "B200 SXM",
    }  # fmt: skip
    assert not any(GPUS[n].full_fp64 for n in ("L40S", "RTX 4090", "B300 SXM", "A10"))
    assert not GPUS["H100 SXM"].graphics
    assert GPUS["L40S"].graphics
    assert GPUS["GH200 96GB"].arm_host


def test_cards_with_two_dies_and_boards_with_four_gpus_count_as_processes_see_them() -> None:
    assert GPUS["MI250X (2 GCD)"].vram_gb == 64
    assert GPUS["MI250X (2 GCD)"].devices_per_card == 2
    assert GPUS["A16 (per GPU)"].vram_gb == 16


def test_gigabytes_of_a_data_sheet_are_not_what_a_process_sees() -> None:
    assert GPUS["L4"].visible_bytes == 23034 * 2**20  # 24 GB with ECC
    assert GPUS["H100 SXM"].visible_bytes == 81559 * 2**20
