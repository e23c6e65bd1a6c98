"""The catalogue file, read once and tested before it is used."""

from __future__ import annotations

import csv
import functools
import re
from pathlib import Path

from gpuferry.audit.catalogue.gpu import Gpu

FILE = Path(__file__).with_name("gpus.csv")
TOLERANCE = 0.04
# GDDR6 boards of the data centre ship with ECC on, which takes 1/16 of the memory.
_INLINE_ECC = 15 / 16


@functools.cache
def catalogue() -> tuple[Gpu, ...]:
    """All GPUs, in the file's order.

    Raises:
        ValueError: the file contradicts itself; a defect of this package.
    """
    with FILE.open(encoding="utf-8", newline="") as file:
        gpus = tuple(_gpu(row) for row in csv.DictReader(file))
    faults = self_test(gpus)
    if faults:
        raise ValueError(f"{FILE.name}: " + "; ".join(faults))
    return gpus


def _gpu(row: dict[str, str]) -> Gpu:
    def value(name: str) -> float:
        return float(row[name] or 0)

    dies = int(match.group(1)) if (match := re.search(r"\((\d) GCD\)", row["name"])) else 1
    visible = value("visible_mib")
    source = row["visible_source"]
    if not visible:
        # Not seen in a listing: the smaller reading of the nominal figure, 10^9 bytes each GB.
        visible = value("vram_gb") * 1e9 / 2**20
        source = "nominal, read as 10^9 bytes a GB"
        if row["name"] in ("L40",):
            visible *= _INLINE_ECC
            source += ", less 1/16 for ECC"
    tensor = (value("tensor_cores"), value("fma_per_clock"), value("boost_mhz"))
    return Gpu(
        name=row["name"],
        vendor=row["vendor"],
        arch=row["arch"],
        compute_capability=row["compute_capability"],
        vram_gb=value("vram_gb") / dies,
        visible_mib=visible / dies,
        visible_source=source,
        mem_bw_gbs=value("mem_bw_gbs") / dies,
        fp16_tflops=value("fp16_dense_tflops") / dies,
        bf16_tflops=value("bf16_dense_tflops") / dies,
        fp8_tflops=value("fp8_dense_tflops") / dies,
        interconnect=row["interconnect"],
        interconnect_gbs=value("interconnect_gbs"),
        tdp_w=value("tdp_w"),
        form=row["form"],
        year=int(row["year"]),
        source=row["source"],
        aliases=tuple(a for a in row["aliases"].split("|") if a),
        devices_per_card=dies,
        tensor=tensor if tensor[0] else None,
    )


def self_test(gpus: tuple[Gpu, ...]) -> list[str]:
    """What contradicts itself: one text each, empty when the table is sound.

    Tensor TFLOPS = cores x FMA x 2 x clock within 4 %; FP8 = 2 x BF16 (Gaudi: equal); BF16 from
    compute capability 8.0, FP8 from 8.9; visible memory at most the nominal one; names that differ.
    """
    return [fault for gpu in gpus for fault in _faults(gpu)] + _shared_names(gpus)


def _faults(gpu: Gpu) -> list[str]:
    faults = []
    if gpu.tensor:
        cores, fma, mhz = gpu.tensor
        formula = cores * fma * 2 * mhz / 1e6
        if abs(formula / gpu.fp16_tflops - 1) > TOLERANCE:
            faults.append(f"{gpu.name}: FP16 {gpu.fp16_tflops:g}, formula {formula:.1f}")
    twice = (
        gpu.vendor == "Intel" or abs(gpu.fp8_tflops / (2 * gpu.bf16_tflops or 1) - 1) <= TOLERANCE
    )
    if gpu.fp8_tflops and not twice:
        faults.append(f"{gpu.name}: FP8 {gpu.fp8_tflops:g} is not twice the BF16 rate")
    if gpu.vendor == "NVIDIA":
        for name, rate, least in (("BF16", gpu.bf16_tflops, 8.0), ("FP8", gpu.fp8_tflops, 8.9)):
            if (gpu.capability >= least) != bool(rate):
                faults.append(f"{gpu.name}: {name} does not go with {gpu.compute_capability}")
    if not 0.85 * gpu.vram_gb * 1e9 <= gpu.visible_bytes <= gpu.vram_gb * 2**30 * 1.02:
        faults.append(f"{gpu.name}: {gpu.visible_mib:g} MiB visible of {gpu.vram_gb:g} GB")
    if not gpu.source or not gpu.mem_bw_gbs or not gpu.fp16_tflops:
        faults.append(f"{gpu.name}: lacks its source, bandwidth or FP16 rate")
    return faults


def _shared_names(gpus: tuple[Gpu, ...]) -> list[str]:
    from gpuferry.audit.catalogue.match import tokens

    seen: dict[frozenset[str], int] = {}
    pairs = [
        (at, name)
        for at, gpu in enumerate(gpus)
        for name in {tokens(text) for text in (gpu.name, *gpu.aliases)}
    ]
    return [
        f"{gpus[at].name} and {gpus[seen[name]].name} (row {seen[name] + 1}) share a name"
        for at, name in pairs
        if seen.setdefault(name, at) != at
    ]
