"""Tables come as YAML, CSV and XLSX; every mistake is named, all of them together."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import openpyxl
import pytest

from gpuferry.audit.read.inventory import InventoryError, read_inventory
from gpuferry.errors import SpecError
from tests.support.audit import problems, row, rows

GIB = 2**30


def test_a_comma_table_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeffid,kind,peak_vram,dataset_gb\na,train,21.5 GiB,150\n".encode())
    (w,) = read_inventory(path)
    assert w.number("peak_vram") == 21.5 * GIB
    assert w.number("dataset") == 150e9


def test_a_semicolon_table_with_decimal_commas_in_windows_encoding(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("id;kind;owner;peak_vram\na;train;M\xfcller;21,5 GB\n".encode("cp1252"))
    (w,) = read_inventory(path)
    assert w.number("peak_vram") == pytest.approx(21.5e9)
    assert w.text("owner") == "Müller"


def test_an_unquoted_decimal_comma_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,kind,peak_vram\na,train,1 GB\nb,train,21,5 GB\n")
    with pytest.raises(InventoryError, match=r"line 3.*4 cells, the header 3"):
        read_inventory(path)


@pytest.mark.parametrize("heading", ["Peak VRAM (GiB)", "PEAK VRAM [GiB]", "peak-vram GiB"])
def test_headings_are_read_as_people_write_them(tmp_path: Path, heading: str) -> None:
    (tmp_path / "t.csv").write_text(f"ID;Kind;{heading};Gpu util (%)\na;Train;21,5;80\n")
    _sheet(tmp_path / "t.xlsx", ["ID", "Kind", heading, "GPU util (%)"], ["a", "train", 21.5, 80])
    for name in ("t.csv", "t.xlsx"):
        (w,) = read_inventory(tmp_path / name)
        assert (w.number("peak_vram"), w.number("gpu_util")) == (21.5 * GIB, 80)


def test_the_sheet_with_the_header_is_read_wherever_it_stands(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["Cover of the team's book"])
    second = book.create_sheet("Tabelle2")
    for line in (["Id", "Kind"], ["a", "etl"]):
        second.append(line)
    book.save(tmp_path / "t.xlsx")
    assert [w.id for w in read_inventory(tmp_path / "t.xlsx")] == ["a"]
    third = book.create_sheet("old")
    third.append(["id", "kind"])
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(InventoryError, match=r"several sheets .*Tabelle2, old"):
        read_inventory(tmp_path / "t.xlsx")


def _sheet(path: Path, *cells: list[object], percent: str = "", merged: str = "") -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    for line in cells:
        sheet.append(line)
    if percent:
        sheet[percent].number_format = "0 %"
    if merged:
        sheet.merge_cells(merged)
    book.save(path)
    return path


def test_a_spreadsheet_with_a_title_and_percentages(tmp_path: Path) -> None:
    path = _sheet(
        tmp_path / "t.xlsx",
        ["Our workloads"], ["id", "kind", "gpu_util", "peak_vram_gib", "deadline_h"],
        ["a", "train", 0.8, 22, 12],
        percent="C3",
    )  # fmt: skip
    (w,) = read_inventory(path)
    assert (w.number("gpu_util"), w.number("peak_vram"), w.number("deadline")) == (
        80,
        22 * GIB,
        43200,
    )


def test_formulas_without_a_result_and_merged_cells_are_named(tmp_path: Path) -> None:
    path = _sheet(
        tmp_path / "t.xlsx", ["id", "kind", "dataset_gb"], ["a", "train", "=2*3"],
        ["b", "train", 1], ["c", "train", 1], merged="C3:C4",
    )  # fmt: skip
    with pytest.raises(InventoryError) as caught:
        read_inventory(path)
    text = str(caught.value)
    assert "row 2, column dataset_gb: '=2*3' is a formula without a stored result" in text
    assert "C3:C4" in text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("workloads: [{id: a, id: b}]", "given twice"),
        ("workloads: &x [*x]", r"is no mapping|refers to itself"),
        ("workloads: {a: 1}", "has to be a list"),
        ("workloads: []", "holds no workload"),
        ("", "holds no workload"),
        ("workloads: [", "not valid YAML"),
        ("jobs: []", r"'jobs'|jobs"),
        ("workloads: [5]", "is no mapping"),
    ],
)
def test_damaged_yaml_is_one_sentence(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=why):
        read_inventory(path)


@pytest.mark.parametrize("name", ["t.txt", "missing.yaml", "broken.xlsx"])
def test_other_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "t.txt").write_text("x")
    (tmp_path / "broken.xlsx").write_bytes(b"PK\x03\x04 no")
    with pytest.raises(SpecError, match=r"not a table|no such table|not a readable XLSX"):
        read_inventory(tmp_path / name)


WRONG = [
    ({"kind": "trian"}, "kind: 'trian' is unknown; did you mean train"),
    ({"id": ""}, "column id: is missing"),
    ({"kind": None}, "column kind: is missing. Accepted: train, finetune"),
    ({"peak_vram": 24}, "column peak_vram: '24' has no unit. Accepted: a size with its unit"),
    ({"peak_vram": "-3 GiB"}, "is negative"),
    ({"gpus_now": 0}, "is too small"),
    ({"gpus_now": float("nan")}, "is not finite"),
    ({"batch": "many"}, "is no number"),
    ({"tp": 1.5}, "is no whole number"),
    ({"mfu": 88}, "more than a matrix product reaches"),
    ({"deadline": "4"}, "has no unit"),
    ({"date": "31.12.2025"}, "is no date. Accepted: a date such as"),
    ({"date": "2999-01-01"}, "lies in the future"),
    ({"basis": "guess"}, "column basis: 'guess' is unknown"),
    ({"restartable": "perhaps"}, "is neither yes nor no"),
    ({"data_residency": False}, "is a yes or no"),
    ({"vram": "24 GB"}, "peak_vram (largest on one GPU), peak_vram_total"),
    ({"peak_vrm": "24 GB"}, "did you mean peak_vram"),
    ({"peak_vram": {"value": "1 GB", "when": 1}}, "has 'when'"),
    ({"peak_vram": ["1 GB"]}, "is a list or mapping"),
    ({"gpu": "RTX 4090 D"}, "is unknown to the catalogue. Accepted: RTX 4090"),
    ({"mfu": 140}, "is too large"),
    ({"id": "a\x1b[2J"}, "holds a control character"),
    ({"id": "a\nb"}, "has more than one line"),
    ({"params": 7}, "is too small. Accepted: a number, such as 7B"),
    ({"runs_per_month": 0}, "is too small"),
    ({"gpu_hours_week": 0}, "is too small"),
    ({"peak_vram": "0 GB"}, "is too small"),
    ({"resolution": "1920"}, "is no resolution"),
    ({"config": "nowhere.json"}, "No such file"),
]


@pytest.mark.parametrize(("cells", "sentence"), WRONG)
def test_a_wrong_value_names_row_column_value_and_what_is_accepted(
    cells: dict[str, object], sentence: str
) -> None:
    found = problems({"id": "a", "kind": "train", **cells})
    assert any(sentence in text for text in found), found
    assert all(text.startswith("row 1") for text in found), found


CONTRADICTIONS = [
    ({"source_gpu": "NVIDIA L4", "peak_vram": "40 GiB"}, "more than one L4 has"),
    ({"peak_vram_total": "40 GiB"}, "over how many GPUs"),
    ({"peak_vram_total": "400 GiB", "peak_vram": "20 GiB", "gpus_now": 4}, "at most 80 GiB"),
    ({"source_gpu": "L4", "peak_vram_total": "200 GiB", "gpus_now": 4}, "have together"),
    ({"dataset": "150 GB", "n_files": "1.28M", "avg_file": "110 MB"}, "n_files x avg_file"),
    ({"gpus_now": 8, "tp": 2, "pp": 2, "dp": 4}, "is not tp x pp x dp = 16"),
    ({"gpu_hours_week": 900, "gpus_now": 2}, "more than 2 GPUs have in a week"),
    ({"active_params": "9B", "params": "7B"}, "is more than params"),
    ({"heads": 32, "kv_heads": 5}, "does not divide heads"),
    ({"lora_rank": 8}, "needs method lora"),
    ({"method": "full", "weights_precision": "nf4"}, "cannot be trained with method full"),
    ({"batch_small": 8, "vram_small": "4 GB"}, "F6 needs all of"),
    ({"batch_small": 8, "vram_small": "4 GB", "batch_large": 4, "vram_large": "6 GB"},
     "is not larger"),
    ({"needs_nvenc": "yes", "vendor": "amd"}, "NVIDIA GPUs"),
    ({"source_gpu": "A100", "peak_vram": "90 GiB"}, "more than one A100"),
    ({"params": "70000", "family": "llm"}, "did you mean 70000B?"),
    ({"params": "7B", "layers": 32, "hidden": 4096, "heads": 33}, "does not divide hidden"),
    ({"params": "7B", "precision": "int8"}, "is no precision of training"),
    ({"kind": "infer", "params": "7B", "peak_vram": "2 GiB"}, "less than the weights alone"),
    ({"gpu": "2x A100 80GB"}, "names 2 GPUs; their number has its own column"),
    ({"dataset_gb": 10, "dataset": "20 GB"}, "something else than another column"),
    (
        {"params": "70B", "layers": 32, "hidden": 4096, "heads": 32, "intermediate": 14336,
         "vocab": 32000, "gated_mlp": "yes"},
        "does not go with the shape",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "sentence"), CONTRADICTIONS)
def test_values_that_cannot_be_true_together_are_named(
    cells: dict[str, object], sentence: str
) -> None:
    found = problems({"id": "a", "kind": "train", **cells})
    assert any(sentence in text for text in found), found


def test_all_mistakes_of_a_long_table_come_together() -> None:
    many: list[dict[str, object]] = [
        {"id": f"w{i}", "kind": "train", "params": "7B"} for i in range(200)
    ]
    many[3]["kind"] = "tarin"
    many[77]["peak_vram"] = "24"
    many[150]["id"] = "w149"
    many[199]["deadline"] = "soon"
    found = problems(*many)
    assert [text.split(",")[0].split(" (")[0] for text in found] == [
        "row 4", "row 78", "row 151", "row 200",
    ]  # fmt: skip


def test_every_number_carries_basis_and_date() -> None:
    w = row(
        basis="declared", date="2026-10-01", params="7B",
        peak_vram={"value": "20 GiB", "basis": "measured", "date": "2026-11-02"},
        **{"peak_ram": "40 GB", "peak_ram.basis": "estimated"},
    )  # fmt: skip
    assert w.values["params"].said == "declared 2026-10-01"
    assert w.values["peak_vram"].said == "measured 2026-11-02"
    assert w.values["peak_ram"].said == "estimated 2026-10-01"


def test_a_config_fills_the_shape_and_what_contradicts_it_is_named(tmp_path: Path) -> None:
    config = {"hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32,
              "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 9728,
              "vocab_size": 151936, "hidden_act": "silu", "tie_word_embeddings": True}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    (w,) = rows({"id": "q", "kind": "infer", "config": "config.json"}, folder=tmp_path)
    assert w.number("head_dim") == 128  # not 2560 / 32 = 80
    assert w.number("params") == pytest.approx(4.02e9, rel=0.01)  # Qwen3-4B
    with pytest.raises(InventoryError, match=r"contradicts config\.json, which says 36"):
        rows({"id": "q", "kind": "infer", "config": "config.json", "layers": 48}, folder=tmp_path)


def test_parameters_of_a_mixture_and_of_latent_attention_from_their_configs(tmp_path: Path) -> None:
    deepseek = {"hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
                "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
                "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
                "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
                "qk_nope_head_dim": 128, "v_head_dim": 128, "vocab_size": 129280,
                "hidden_act": "silu", "model_type": "deepseek_v3"}  # fmt: skip
    (tmp_path / "c.json").write_text(json.dumps(deepseek))
    (w,) = rows({"id": "d", "kind": "infer", "config": "c.json"}, folder=tmp_path)
    assert w.number("params") == pytest.approx(671e9, rel=0.01)
    assert w.number("active_params") == pytest.approx(37e9, rel=0.05)


def _safetensors(path: Path, *, cut: int = 0) -> Path:
    header = json.dumps({
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "BF16", "shape": [1000, 100], "data_offsets": [0, 200000]},
        "b": {"dtype": "F32", "shape": [50], "data_offsets": [200000, 200200]},
    }).encode()  # fmt: skip
    data = struct.pack("<Q", len(header)) + header + b"\0" * 200200
    path.write_bytes(data[: len(data) - cut])
    return path


def test_parameters_are_counted_from_safetensors_headers(tmp_path: Path) -> None:
    _safetensors(tmp_path / "m.safetensors")
    (w,) = rows({"id": "m", "kind": "infer", "weights": "."}, folder=tmp_path)
    assert w.number("params") == 100050
    assert w.number("weights_bytes") == 200200


@pytest.mark.parametrize("cut", [1, 200200, 200210, 200400])
def test_a_cut_off_safetensors_file_is_named(tmp_path: Path, cut: int) -> None:
    _safetensors(tmp_path / "m.safetensors", cut=cut)
    with pytest.raises(InventoryError, match="is cut off"):
        rows({"id": "m", "kind": "infer", "weights": "m.safetensors"}, folder=tmp_path)


def test_a_column_that_every_row_lacks_is_one_mistake_and_its_usual_name_is_known() -> None:
    found = problems({"name": "a", "kind": "sim"}, {"name": "b", "kind": "sim"})
    assert len(found) == 2
    assert found[0].startswith("every row, column id: is missing")
    assert "column name: is no column; did you mean id?" in found[1]
    some = problems({"id": "a", "kind": "sim"}, {"kind": "sim"}, {"kind": "sim"})
    assert [text.split(",")[0] for text in some] == ["row 2 ()", "row 3 ()"]


def test_basis_and_date_of_a_value_are_found_beside_a_column_with_a_unit_in_its_name() -> None:
    for side in ("peak_vram", "peak_vram_gib"):
        (w,) = rows({"id": "a", "kind": "sim", "peak_vram_gib": 9, f"{side}.basis": "measured",
                     f"{side}.date": "2026-11-02"})  # fmt: skip
        assert w.values["peak_vram"].said == "measured 2026-11-02"
    wrong = {"id": "a", "kind": "sim", "peak_vram_gib": 9, "peak_vram.date": "02.11.2026"}
    assert any("is no date" in text for text in problems(wrong))


@pytest.mark.parametrize("image", [{"resolution": "512x512"}, {"activations_m": 11.1}])
def test_a_model_of_images_is_not_silently_taken_for_a_language_model(
    image: dict[str, object],
) -> None:
    cells = {"id": "a", "kind": "train", "params": "25.6M", **image}
    (found,) = problems(cells)
    assert "column family: is missing" in found
    assert "diffusion, cnn" in found
    assert problems({**cells, "family": "cnn"}) == []
    assert problems({**cells, "seq": 2048, "params": "2B"}) == []  # a model of both
