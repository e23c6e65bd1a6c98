"""The rules: every row has a source, ranges do not overlap, models are found by whole words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuferry.driver.expectations import by_name, by_pci_id, models
from gpuferry.driver.rules import architecture_of, first_branch_of, open_modules_fit, table

TABLES = [
    "architectures", "devices", "open_modules", "distributions", "nvidia_repository", "cuda",
    "expectations", "kernels",
]  # fmt: skip


def rows(node: Any) -> Iterator[dict[str, Any]]:
    """All mappings that name a source."""
    if isinstance(node, dict):
        if "source" in node:
            yield node
        for value in node.values():
            yield from rows(value)
    elif isinstance(node, list):
        for value in node:
            yield from rows(value)


@pytest.mark.parametrize("name", TABLES)
def test_every_row_names_a_source_that_is_described(name: str) -> None:
    rules = table(name)
    found = list(rows({key: value for key, value in rules.items() if key != "sources"}))
    assert found
    used = {source for row in found for source in row["source"]}
    used |= set(rules.get("default_source", []))
    assert used <= set(rules["sources"])
    for part in ("ranges", "later", "nvswitches", "hgx", "before", "repositories", "models",
                 "last_kernels"):  # fmt: skip
        assert all("source" in row for row in rules.get(part, []))


def test_ranges_are_in_order_and_do_not_overlap() -> None:
    ends = 0
    for row in table("devices")["ranges"]:
        first, last = int(row["from"], 16), int(row["to"], 16)
        assert ends < first <= last, row
        ends = last
        assert row["architecture"] in table("architectures")["architectures"]


@pytest.mark.parametrize(
    ("device", "architecture", "first"),
    [
        ("102d", "kepler", 319), ("13f2", "maxwell", 340), ("15f8", "pascal", 367),
        ("1b38", "pascal", 367), ("1db6", "volta", 384), ("1eb8", "turing", 410),
        ("20b2", "ampere", 450), ("2236", "ampere", 450), ("25b6", "ampere", 450),
        ("27b8", "ada", 520), ("26b9", "ada", 520), ("2684", "ada", 520), ("2330", "hopper", 520),
        ("2335", "hopper", 550), ("233b", "hopper", 570), ("2342", "grace_hopper", 535),
        ("2901", "blackwell", 570), ("2b85", "blackwell", 570), ("2bb5", "blackwell", 570),
        ("3182", "blackwell_ultra", 580),
    ],
)  # fmt: skip
def test_known_gpus_have_their_architecture(device: str, architecture: str, first: int) -> None:
    assert architecture_of(device) == architecture
    assert first_branch_of(device) == first


@pytest.mark.parametrize("device", ["3021", "1e01", "1af1", "22a3", "0040", "ffff"])
def test_other_ids_have_none(device: str) -> None:
    assert architecture_of(device) == ""


def test_open_modules_before_560_are_for_listed_gpus() -> None:
    assert open_modules_fit("20b2", 535)
    assert not open_modules_fit("2331", 535)
    assert open_modules_fit("2331", 550)
    assert not open_modules_fit("2684", 550)
    assert open_modules_fit("2684", 570)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("L4", "L4"),
        ("h100 sxm", "H100 SXM"),
        ("NVIDIA L4 (simulated)", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-32GB", "V100 SXM2 32GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 Blackwell WS"),
        ("NVIDIA A10G", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 5070", None),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", None),
        ("Quadro RTX 6000", None),
        ("NVIDIA A100", None),
        ("", None),
    ],
)
def test_models_are_found_by_whole_words(name: str, model: str | None) -> None:
    found = by_name(name)
    assert (found.name if found else None) == model


def test_models_are_found_by_pci_id() -> None:
    found = by_pci_id("2330")
    assert found is not None
    assert (found.memory_mib, found.power_watts, found.sm_clock_mhz) == (81559, 700, 1980)
    assert (found.pcie_generation, found.pcie_width) == (5, 16)
    small, shared = by_pci_id("25b6", "157e"), by_pci_id("25b6", "14a9")
    assert small is not None
    assert shared is not None
    assert (small.name, shared.name) == ("A2", "A16 (per GPU)")
    assert by_pci_id("25b6") is None
    assert by_pci_id("3021") is None


def test_ids_of_models_are_known_gpus_and_used_once() -> None:
    ids = [device for row in models() for device in row.ids]
    assert len(ids) == len(set(ids))
    assert all(architecture_of(device.split(":")[0]) for device in ids)
    for row in models():
        if row.memory_mib:
            assert 0.85 * row.memory_gb * 1024 < row.memory_mib <= row.memory_gb * 1024
