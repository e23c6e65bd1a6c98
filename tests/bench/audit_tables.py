"""Large tables and offer files for the audit's figure: varied rows, none like its neighbour."""

from __future__ import annotations

import csv
import random
from pathlib import Path

from gpuferry.audit.catalogue.load import catalogue

COLUMNS = [
    "id",
    "kind",
    "family",
    "params",
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "intermediate",
    "vocab",
    "method",
    "lora_rank",
    "precision",
    "optimizer",
    "batch",
    "seq",
    "recompute",
    "context",
    "concurrency",
    "tokens",
    "deadline",
    "runs_per_month",
    "restartable",
    "peak_vram",
    "peak_vram.basis",
    "gpus_now",
    "source_gpu",
    "run_time_now",
    "dataset",
    "n_files",
    "geometry",
    "textures",
    "cells",
    "bytes_per_cell",
    "needs_fp64",
    "needs_ecc",
    "activations_m",
    "basis",
    "date",
    "gpu_hours_week",
]
_SHAPES = (
    ("1.24B", 16, 2048, 32, 8, 8192, 128256), ("3.2B", 28, 3072, 24, 8, 8192, 128256),
    ("8.03B", 32, 4096, 32, 8, 14336, 128256), ("14.8B", 48, 5120, 40, 8, 13824, 152064),
    ("32.8B", 64, 5120, 40, 8, 27648, 152064), ("70.6B", 80, 8192, 64, 8, 28672, 128256),
)  # fmt: skip


def write_workloads(path: Path, count: int, seed: int = 7) -> None:
    """A CSV with so many workloads of all kinds."""
    rng = random.Random(seed)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for index in range(count):
            row = {"id": f"w{index}", "basis": "declared", "date": "2026-11-01"}
            writer.writerow({**row, **_row(rng, index)})


def _row(rng: random.Random, index: int) -> dict[str, object]:
    kind = index % 6
    size, layers, hidden, heads, kv, f, vocab = rng.choice(_SHAPES)
    llm = {
        "params": size, "layers": layers, "hidden": hidden, "heads": heads, "kv_heads": kv,
        "intermediate": f, "vocab": vocab, "family": "llm",
    }  # fmt: skip
    use = {"runs_per_month": rng.randint(1, 30), "dataset": f"{rng.randint(10, 900)} GB"}
    if kind == 0:
        return {
            "kind": "finetune", "method": rng.choice(["lora", "qlora"]), "lora_rank": 16,
            "batch": rng.choice([1, 2, 4]), "seq": rng.choice([1024, 2048, 4096]), **llm, **use,
            "tokens": f"{rng.randint(1, 500)}M", "deadline": f"{rng.randint(4, 90)}h",
            "recompute": rng.choice(["none", "full"]),
        }  # fmt: skip
    if kind == 1:
        return {
            "kind": "train", "batch": rng.choice([1, 2]), "seq": 4096, "recompute": "full", **llm,
            "optimizer": rng.choice(["adamw", "adamw-8bit"]), "tokens": f"{rng.randint(1, 9)}B",
            "deadline": f"{rng.randint(5, 60)}d", **use,
        }  # fmt: skip
    if kind == 2:
        return {"kind": "infer", "context": rng.randint(1000, 32000),
                "concurrency": rng.randint(1, 64), **llm}  # fmt: skip
    if kind == 3:
        return {
            "kind": "train", "family": "cnn", "params": "25.6M",
            "activations_m": rng.uniform(2, 30),
            "batch": rng.choice([32, 64, 128]), "precision": "fp16", "optimizer": "sgd-momentum",
            "run_time_now": f"{rng.randint(2, 200)}h", "source_gpu": "RTX 3090", **use,
        }  # fmt: skip
    if kind == 4:
        return {
            "kind": "render", "geometry": f"{rng.uniform(0.5, 12):.2f} GiB",
            "textures": f"{rng.uniform(0.5, 12):.2f} GiB", "run_time_now": f"{rng.randint(2, 99)}h",
            "source_gpu": "RTX 3090", **use,
        }  # fmt: skip
    return {
        "kind": "sim", "cells": f"{rng.randint(5, 300)}M", "bytes_per_cell": "1.2 KB",
        "needs_fp64": rng.choice(["yes", "no"]), "needs_ecc": "yes", **use,
        "run_time_now": f"{rng.randint(2, 99)}h", "source_gpu": "A100 PCIe 40GB",
    }  # fmt: skip


def write_offers(path: Path, count: int, seed: int = 11) -> None:
    """A CSV with so many offers over the whole catalogue."""
    rng = random.Random(seed)
    names = [
        "id",
        "provider",
        "gpu",
        "gpus",
        "cpu_cores",
        "memory",
        "disk",
        "network",
        "price",
        "currency",
        "period",
        "date",
        "kind",
    ]
    gpus = catalogue()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for index in range(count):
            gpu = gpus[index % len(gpus)]
            n = rng.choice([1, 2, 4, 8])
            price = round(n * (0.1 + gpu.fp16_tflops / 500) * rng.uniform(0.8, 1.4), 2)
            month = index % 5 == 0
            writer.writerow([
                f"o{index}", f"p{index % 12}", gpu.name, n, 16 * n, f"{128 * n} GiB",
                f"{4 * n} TB", "100 Gbit/s", round(price * 400, 2) if month else price, "USD",
                "month" if month else "hour", "2026-11-01",
                "dedicated" if month else rng.choice(["on-demand", "spot"]),
            ])  # fmt: skip
