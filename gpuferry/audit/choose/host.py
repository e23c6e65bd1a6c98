"""F10 and F11: cores, memory, disk and network that the GPUs of one server need."""

from __future__ import annotations

from dataclasses import dataclass

from gpuferry.audit.estimate import formulas as f
from gpuferry.audit.estimate import states, work
from gpuferry.audit.estimate.terms import Estimate
from gpuferry.audit.read.units import show_size
from gpuferry.audit.read.workload import Workload

SYSTEM_BYTES = 8 * f.GIB
IMAGES_BYTES = 60e9
WORKERS = {"llm": 2, "cnn": 4, "diffusion": 4, "other": 2, "render": 1, "sim": 0, "etl": 4}


@dataclass(frozen=True)
class Host:
    """What a server needs beside its GPUs, each with its arithmetic."""

    cores: float
    memory: float
    disk: float
    feed: float
    cores_how: str
    memory_how: str
    disk_how: str
    feed_how: str = ""


def host(w: Workload, gpus: int, need: Estimate | None, speed: float = 1.0) -> Host:
    """Requirements of one server with so many GPUs, each `speed` times as quick as today's."""
    cores, cores_how = _cores(w, gpus, max(speed, 1.0))
    memory, memory_how = _memory(w, gpus, need)
    disk, disk_how = _disk(w)
    feed, feed_how = _feed(w, gpus, max(speed, 1.0))
    return Host(cores, memory, disk, feed, cores_how, memory_how, disk_how, feed_how)


def fed_by_host(w: Workload) -> bool:
    """Whether a quicker GPU needs more cores, because each sample is prepared on them."""
    return w.has("cpu_ms_per_sample", "samples_per_s_now") and not w.has("cpu_cores_now")


def _cores(w: Workload, gpus: int, speed: float) -> tuple[float, str]:
    now = w.number("gpus_now", 1)
    if w.has("cpu_cores_now"):
        cores = w.number("cpu_cores_now") / now * gpus * 1.1
        return cores, f"{w.number('cpu_cores_now'):g} busy now on {now:g} GPUs, + 10 %"
    if w.has("cpu_ms_per_sample", "samples_per_s_now"):
        rate = w.number("samples_per_s_now") / now * gpus * speed
        each = w.number("cpu_ms_per_sample")
        how = f"F10: {each:g} ms for each of {rate:.4g} samples/s, + 20 %, + 2"
        return each / 1000 * rate * 1.2 + 2, how
    workers = WORKERS[w.family] if w.kind != "infer" else 1
    how = f"F10: {gpus} x ({workers} workers + 1) + 4"
    return work.cores(gpus, workers), how


def _memory(w: Workload, gpus: int, need: Estimate | None) -> tuple[float, str]:
    now = w.number("gpus_now", 1)
    parts: list[tuple[float, str]] = []
    if w.has("peak_ram"):
        value = w.number("peak_ram") / now * gpus * 1.15 + SYSTEM_BYTES
        parts.append((value, f"{show_size(w.number('peak_ram'))} now, + 15 %, + system"))
    elif need:
        value = need.mid * gpus + SYSTEM_BYTES
        parts.append((value, f"F10: what {gpus} GPUs hold ({show_size(need.mid)} each), + system"))
    if w.text("offload", "none") != "none":
        value = f.deepspeed_host_ram(w.number("params"), gpus, 1)
        parts.append((value, f"F2: offload of {w.number('params') / 1e9:g}e9 parameters x 1.5"))
    return max(parts, default=(SYSTEM_BYTES, "system alone"))


def _disk(w: Workload) -> tuple[float, str]:
    checkpoint = w.number("checkpoint")
    if not checkpoint and w.training and w.has("params"):
        lora = states.method_of(w) != "full"
        trained = w.number("trainable_params") or (0.02 if lora else 1) * w.number("params")
        checkpoint = trained * 14
    kept = w.number("checkpoints_kept", 3) * checkpoint
    weights = w.number("params") * 2 if not w.training or w.kind == "finetune" else 0
    raw = w.number("dataset") or w.number("n_files") * w.number("avg_file")
    converted = raw if w.family in ("cnn", "diffusion") and w.training else 0.0
    value = work.capacity_bytes(raw, converted, kept + weights, IMAGES_BYTES)
    parts = [f"data {show_size(raw)}"] + (["converted once more"] if converted else [])
    if kept:
        parts.append(f"checkpoints {show_size(kept)}")
    if weights:
        parts.append(f"weights {show_size(weights)}")
    return value, f"F11: ({', '.join(parts)}, images 56 GiB) / 0.8"


def _feed(w: Workload, gpus: int, speed: float) -> tuple[float, str]:
    each = w.number("bytes_per_sample") or w.number("avg_file")
    rate = w.number("samples_per_s_now") / w.number("gpus_now", 1) * speed
    if not each or not rate:
        return 0.0, ""
    value = work.feed_bytes_s(gpus, rate, each)
    return value, f"F11: {gpus} x {rate:.4g} samples/s x {show_size(each)} x 1.3"
