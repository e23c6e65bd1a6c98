"""What was measured, as a row of the table. Pure."""

from __future__ import annotations

import datetime as dt
from typing import Any

from gpuferry.audit.estimate.need import PREALLOCATING
from gpuferry.audit.read.cells import parse
from gpuferry.audit.read.columns import COLUMNS
from gpuferry.audit.read.units import show_size
from gpuferry.errors import SpecError

# A GPU with less than this is one that the job does not use.
_USED_BYTES, _USED_PERCENT = 256 * 2**20, 5


def row_text(name: str, kind: str, found: dict[str, Any]) -> str:
    """YAML with one workload, its numbers measured today.

    Raises:
        SpecError: the kind or the name is none.
    """
    kinds = COLUMNS["kind"].choices
    if kind not in kinds:
        raise SpecError(f"--kind {kind!r} is unknown; accepted: {', '.join(kinds)}.")
    try:
        name = str(parse(COLUMNS["id"], name)[0])
    except ValueError as error:
        raise SpecError(f"--id {name!r} {error}; accepted: a name in one line.") from None
    if not name:
        raise SpecError("--id is empty; accepted: a name in one line.")
    lines = ["workloads:", f"  - id: {_quoted(name)}", f"    kind: {kind}", "    basis: measured"]
    lines.append(f"    date: {dt.datetime.now(dt.UTC).date()}")
    lines += [f"    {column}: {value}" for column, value in _values(found)]
    return "\n".join([*(f"# {line}" for line in _remarks(found)), *lines]) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def used_gpus(found: dict[str, Any]) -> list[dict[str, Any]]:
    """GPUs that something was on."""
    return [
        gpu for gpu in found.get("gpus", [])
        if ((gpu["memory"] or {}).get("peak") or 0) > _USED_BYTES
        or ((gpu["util"] or {}).get("mean") or 0) > _USED_PERCENT
    ]  # fmt: skip


# What decides about memory first: a server reserves it, whatever else is installed beside it.
_FIRST = ("vllm", "sglang", "torch", "transformers", "deepspeed", "diffusers", "lightning")


def frameworks_of(versions: dict[str, str]) -> list[str]:
    """The libraries that a row's memory depends on, at most four.

    TensorFlow and JAX are often only installed beside PyTorch; then they are left out.
    """
    names = [name for name in _FIRST if name in versions]
    if "torch" not in versions:
        names += [name for name in ("tensorflow", "jax") if name in versions]
    if not names:
        names = [name for name in versions if name not in ("python", "numpy", "triton")]
    return [f"{name} {versions[name]}".strip() for name in names[:4]]


def _values(found: dict[str, Any]) -> list[tuple[str, str]]:
    gpus = used_gpus(found)
    values = []
    frameworks = frameworks_of(found.get("versions", {}))
    if frameworks:
        values.append(("framework", _quoted(", ".join(frameworks))))
    if gpus:
        values.append(("source_gpu", _quoted(gpus[0]["name"])))
        values.append(("gpus_now", str(len(gpus))))
        peaks = [gpu["memory"]["peak"] for gpu in gpus if gpu["memory"]]
        if peaks:
            values.append(("peak_vram", _mib(max(peaks))))
            values.append(("peak_vram_total", _mib(sum(peaks))))
        means = [gpu["util"]["mean"] for gpu in gpus if gpu["util"]]
        if means:
            values.append(("gpu_util", f"{sum(means) / len(means):.0f} %"))
    if found.get("ram"):
        values.append(("peak_ram", _mib(found["ram"]["peak"])))
    cpu = (found.get("rates") or {}).get("cpu")
    if cpu:
        values.append(("cpu_cores_now", f"{cpu['mean']:.2f}"))
    files = found.get("files") or {}
    if files.get("count") and files.get("complete"):
        values.append(("dataset", f"{files['bytes']} B"))
        values.append(("n_files", str(files["count"])))
        values.append(("avg_file", f"{files['bytes'] / files['count']:.0f} B"))
    return values


def _mib(value: float) -> str:
    return f"{value / 2**20:.0f} MiB"


def _remarks(found: dict[str, Any]) -> list[str]:
    lines = [
        f"Measured on {found.get('host')}, {found.get('cpus')} CPUs, kernel {found.get('kernel')}: "
        f"{found.get('samples')} samples in {found.get('seconds', 0):.0f} s"
        + (", interrupted" if found.get("interrupted") else "")
        + (", the job ended" if found.get("ended") else "")
    ]
    if found.get("versions"):
        lines.append("versions: " + ", ".join(f"{n} {v}" for n, v in found["versions"].items()))
    if found.get("gpu_absent"):
        lines.append(f"GPU: not measured ({found['gpu_absent']})")
    elif not used_gpus(found):
        lines.append("GPU: nothing was on any GPU while it was watched")
    if any("simulated" in gpu["name"].lower() for gpu in found.get("gpus", [])):
        lines.append("the GPUs are SIMULATED: their figures say nothing about a real one")
    named = " ".join(frameworks_of(found.get("versions", {})))
    if any(name in named for name in PREALLOCATING):
        lines.append(
            "it may reserve GPU memory in advance: then peak_vram is a setting, not a need"
        )
    for name, label in (("disk_read", "disk read"), ("disk_write", "disk written"),
                        ("net_in", "network in"), ("net_out", "network out")):  # fmt: skip
        rate = (found.get("rates") or {}).get(name)
        if rate:
            lines.append(
                f"{label}: {show_size(rate['mean'])}/s mean, {show_size(rate['peak'])}/s peak"
            )
    files = found.get("files") or {}
    if files.get("count"):
        more = "" if files["complete"] else " (NOT ALL were counted in this time)"
        lines.append(f"data: {files['count']} files, {show_size(files['bytes'])}{more}")
        lines.append("  " + ", ".join(f"{n}: {c}" for n, c in files["histogram"].items() if c))
    return lines
