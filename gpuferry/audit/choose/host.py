"""F10 and F11: cores, memory, disk and network that the GPUs of one server need."""

from __future__ import annotations

from typing import NamedTuple

from gpuferry.audit.estimate import formulas as f
from gpuferry.audit.estimate import states, work
from gpuferry.audit.estimate.terms import Estimate
from gpuferry.audit.read.units import show_size
from gpuferry.audit.read.workload import Workload

SYSTEM_BYTES = 8 * f.GIB
IMAGES_BYTES = 60e9
WORKERS = {"llm": 2, "cnn": 4, "diffusion": 4, "other": 2, "render": 1, "sim": 0, "etl": 4}


class Host(NamedTuple):
    """What a server needs beside its GPUs: cores, bytes, bytes, bytes a second."""

    cores: float
    memory: float
    disk: float
    feed: float = 0.0


def host(w: Workload, gpus: int, need: Estimate | None, speed: float = 1.0) -> Host:
    """Requirements of one server with so many GPUs, each `speed` times as quick as today's."""
    quick = max(speed, 1.0)
    each = w.number("bytes_per_sample") or w.number("avg_file")
    feed = work.feed_bytes_s(gpus, _rate(w, quick), each) if each else 0.0
    return Host(_cores(w, gpus, quick), _memory(w, gpus, need), _disk(w), feed)


def reasons(w: Workload, gpus: int, need: Estimate | None, speed: float = 1.0) -> dict[str, str]:
    """The arithmetic behind each figure of :func:`host`, for people."""
    quick = max(speed, 1.0)
    found = {
        "cores": _cores_how(w, gpus, quick),
        "memory": _memory_how(w, gpus, need),
        "disk": _disk_how(w),
    }
    each = w.number("bytes_per_sample") or w.number("avg_file")
    if each and _rate(w, quick):
        found["feed"] = f"F11: {gpus} x {_rate(w, quick):.4g} samples/s x {show_size(each)} x 1.3"
    return found


def fed_by_host(w: Workload) -> bool:
    """Whether a quicker GPU needs more cores, because each sample is prepared on them."""
    return w.has("cpu_ms_per_sample", "samples_per_s_now") and not w.has("cpu_cores_now")


def _rate(w: Workload, speed: float) -> float:
    """Samples per second on one GPU."""
    return w.number("samples_per_s_now") / w.number("gpus_now", 1) * speed


def _workers(w: Workload) -> int:
    return WORKERS[w.family] if w.kind != "infer" else 1


def _cores(w: Workload, gpus: int, speed: float) -> float:
    if w.has("cpu_cores_now"):
        return w.number("cpu_cores_now") / w.number("gpus_now", 1) * gpus * 1.1
    if fed_by_host(w):
        return w.number("cpu_ms_per_sample") / 1000 * _rate(w, speed) * gpus * 1.2 + 2
    return work.cores(gpus, _workers(w))


def _cores_how(w: Workload, gpus: int, speed: float) -> str:
    if w.has("cpu_cores_now"):
        now = w.number("gpus_now", 1)
        return f"{w.number('cpu_cores_now'):g} busy now on {now:g} GPUs, + 10 %"
    if fed_by_host(w):
        each, rate = w.number("cpu_ms_per_sample"), _rate(w, speed) * gpus
        return f"F10: {each:g} ms for each of {rate:.4g} samples/s, + 20 %, + 2"
    return f"F10: {gpus} x ({_workers(w)} workers + 1) + 4"


def _offloaded(w: Workload, gpus: int) -> float:
    if w.text("offload", "none") == "none":
        return 0.0
    return f.deepspeed_host_ram(w.number("params"), gpus, 1)


def _memory(w: Workload, gpus: int, need: Estimate | None) -> float:
    if w.has("peak_ram"):
        value = w.number("peak_ram") / w.number("gpus_now", 1) * gpus * 1.15
    else:
        value = need.mid * gpus if need else 0.0
    value += SYSTEM_BYTES
    return max(value, _offloaded(w, gpus)) if w.has("offload") else value


def _memory_how(w: Workload, gpus: int, need: Estimate | None) -> str:
    if _memory(w, gpus, need) == _offloaded(w, gpus):
        return f"F2: offload of {w.number('params') / 1e9:g}e9 parameters x 1.5"
    if w.has("peak_ram"):
        return f"{show_size(w.number('peak_ram'))} now, + 15 %, + system"
    if need:
        hold = "1 GPU holds" if gpus == 1 else f"{gpus} GPUs hold"
        return f"F10: what {hold} ({show_size(need.mid)} each), + system"
    return "system alone"


def _disk_parts(w: Workload) -> dict[str, float]:
    checkpoint = w.number("checkpoint")
    if not checkpoint and w.training and w.has("params"):
        lora = states.method_of(w) != "full"
        trained = w.number("trainable_params") or (0.02 if lora else 1) * w.number("params")
        checkpoint = trained * 14
    raw = w.number("dataset") or w.number("n_files") * w.number("avg_file")
    return {
        "data": raw,
        "converted once more": raw if w.family in ("cnn", "diffusion") and w.training else 0.0,
        "checkpoints": w.number("checkpoints_kept", 3) * checkpoint,
        "weights": w.number("params") * 2 if w.kind != "train" else 0.0,
    }


def _disk(w: Workload) -> float:
    if not w.disk:
        w.disk = _find_disk(w)
    return w.disk


def _find_disk(w: Workload) -> float:
    parts = _disk_parts(w)
    kept = parts["checkpoints"] + parts["weights"]
    return work.capacity_bytes(parts["data"], parts["converted once more"], kept, IMAGES_BYTES)


def _disk_how(w: Workload) -> str:
    parts = [f"{name} {show_size(value)}" for name, value in _disk_parts(w).items() if value]
    return f"F11: ({', '.join([*parts, 'images 56 GiB'])}) / 0.8"
