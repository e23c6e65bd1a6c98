"""The columns of the table: what each holds, in which unit, and what is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "text", "choice", "bool", "date", "path", "size", "duration", "rate", "count", "number",
    "percent", "resolution", "gpu",
]  # fmt: skip

KINDS = ("train", "finetune", "infer", "render", "sim", "etl")
FAMILIES = ("llm", "diffusion", "cnn", "other")
PRECISIONS = (
    "fp64", "fp32", "tf32", "fp16", "bf16", "fp16-pure", "bf16-pure", "fp8", "int8", "int4", "fp4",
)  # fmt: skip
WEIGHTS = ("fp32", "fp16", "bf16", "fp8", "int8", "int4", "nf4", "nf4-dq", "fp4")
OPTIMIZERS = (
    "adamw", "adamw-8bit", "paged-adamw-8bit", "adafactor", "lion", "muon", "sgd-momentum", "sgd",
)  # fmt: skip


_WHOLE = {
    "gpus_now", "batch_small", "batch_large", "layers", "heads", "kv_heads", "head_dim", "experts",
    "full_attention_every", "kv_lora_rank", "rope_dim", "lora_rank", "batch", "zero", "tp", "pp",
    "dp", "concurrency", "max_gpus_per_server",
}  # fmt: skip


@dataclass(frozen=True, eq=False)  # each is there once: cells are kept by it
class Column:
    """One column. `low` and `high` are inclusive, in the base unit (bytes, seconds, bytes/s)."""

    name: str
    kind: Kind
    help: str
    choices: tuple[str, ...] = ()
    low: float = 0
    high: float = 1e30
    group: str = ""
    whole: bool = False


def _columns() -> list[Column]:
    c = Column
    who = [
        c("id", "text", "unique name of the workload; required"),
        c("owner", "text", "who answers for it"),
        c("kind", "choice", "what it does; required", KINDS),
        c("family", "choice", "which formulas fit; default: llm when params are given", FAMILIES),
        c("framework", "text", "such as pytorch 2.6, vllm 0.8, blender 4.3, openfoam"),
        c("basis", "choice", "of the row's numbers", ("measured", "estimated", "declared")),
        c("date", "date", "when the row's numbers were found, YYYY-MM-DD"),
        c("notes", "text", "free text"),
    ]
    today = [
        c("source_gpu", "gpu", "GPU that it runs on now, as nvidia-smi names it"),
        c("gpus_now", "number", "GPUs that one run uses now", low=1, high=4096),
        c("peak_vram", "size", "largest memory in use on ONE GPU, after two steps at least", low=1),
        c("peak_vram_total", "size", "the same summed over all GPUs of the run", low=1),
        c("peak_ram", "size", "largest host memory in use", low=1),
        c("cpu_cores_now", "number", "CPU cores busy while it runs", high=4096),
        c("cpu_ms_per_sample", "number", "CPU time to prepare a sample, in ms", high=1e7),
        c("samples_per_s_now", "number", "samples (images, frames) per second of the run now"),
        c("gpu_util", "percent", "mean GPU utilisation while it runs", high=100),
        c("run_time_now", "duration", "how long one run takes now"),
        c("batch_small", "number", "F6: a batch size that was measured", low=1),
        c("vram_small", "size", "F6: peak memory at batch_small", low=1),
        c("batch_large", "number", "F6: a larger batch size that was measured", low=1),
        c("vram_large", "size", "F6: peak memory at batch_large", low=1),
    ]
    model = [
        c("params", "count", "parameters, such as 7B; all experts of a mixture count", low=1000),
        c("active_params", "count", "parameters that one token uses (mixtures)", low=1),
        c("other_params", "count", "parameters kept on the GPU beside params (text encoder, VAE)"),
        c("config", "path", "a model's config.json; the shape is read from it"),
        c("weights", "path", "a .safetensors file, or the folder of them; headers only are read"),
        c("layers", "number", "transformer layers", low=1, high=2000),
        c("hidden", "number", "hidden size", low=1, high=1e6),
        c("heads", "number", "attention heads", low=1, high=1e4),
        c("kv_heads", "number", "key and value heads (GQA, MQA)", low=1, high=1e4),
        c("head_dim", "number", "size of one head; default hidden / heads", low=1, high=4096),
        c("intermediate", "number", "size of the MLP, of one expert in a mixture", low=1, high=1e6),
        c("vocab", "number", "size of the vocabulary", low=1, high=1e7),
        c("gated_mlp", "bool", "whether the MLP has a gate (SwiGLU); default: yes with kv_heads"),
        c("experts", "number", "experts of a mixture", low=1, high=4096),
        c("sliding_window", "number", "tokens that sliding layers keep", low=1),
        c("full_attention_every", "number", "every n-th layer keeps all tokens; 0: none", low=0),
        c("kv_lora_rank", "number", "MLA: rank of the compressed keys and values", low=1),
        c("rope_dim", "number", "MLA: size of the rotary part", low=0),
        c("activations_m", "number", "millions of convolution outputs of a sample: ResNet-50 11.1"),
        c(
            "flops_per_sample",
            "count",
            "FLOPs of one forward pass, 2 for a multiply-add: ResNet-50 8.2e9",
        ),
    ]
    how = [
        c("method", "choice", "of training", ("full", "lora", "qlora")),
        c("trainable_params", "count", "parameters that are trained; default from lora_rank"),
        c("lora_rank", "number", "rank of the adapters", low=1, high=65536),
        c("lora_targets", "choice", "adapted matrices", ("qv", "attention", "all")),
        c("precision", "choice", "of computing; bf16 and fp16 mean mixed, -pure all", PRECISIONS),
        c("weights_precision", "choice", "of weights that are only read", WEIGHTS),
        c("kv_precision", "choice", "of the KV cache", ("fp32", "fp16", "bf16", "fp8", "int8")),
        c("optimizer", "choice", "default adamw", OPTIMIZERS),
        c("chunked_loss", "bool", "the loss is computed in pieces (torchtune, Liger, Unsloth)"),
        c("fused_gradients", "bool", "the optimizer runs inside the backward pass"),
        c("batch", "number", "samples on ONE GPU in one pass (micro-batch)", low=1, high=1e7),
        c("seq", "count", "tokens of one training sample", low=1, high=1e8),
        c("resolution", "resolution", "width x height in pixels, such as 1024x1024"),
        c("recompute", "choice", "of activations", ("none", "selective", "full")),
        c("attention", "choice", "eager keeps the s x s matrix; default flash", ("flash", "eager")),
        c("zero", "number", "ZeRO stage; 3 is FSDP", high=3),
        c("tp", "number", "tensor parallel", low=1, high=1024),
        c("pp", "number", "pipeline parallel", low=1, high=1024),
        c("dp", "number", "data parallel", low=1, high=65536),
        c("offload", "choice", "to host memory", ("none", "optimizer", "all")),
        c("concurrency", "number", "sequences served at the same time", low=1, high=1e6),
        c("context", "count", "tokens kept for each of them, prompt and answer", low=1, high=1e9),
    ]
    scene = [
        c("geometry", "size", "render: meshes, hair and volumes as loaded"),
        c("textures", "size", "render: all textures as loaded, without mip maps"),
        c("texture_count", "number", "render: textures, with texture_resolution"),
        c("texture_resolution", "resolution", "render: pixels of one texture"),
        c("passes", "number", "render: passes kept in 32-bit RGBA", high=1000),
        c("cells", "count", "sim: cells, particles or atoms of the whole case", low=1),
        c("bytes_per_cell", "size", "sim: memory for one of them, from a small run", low=1),
        c("splits", "bool", "sim: the case can be cut over GPUs; default: only if it is now"),
    ]
    work = [
        c("tokens", "count", "tokens of one run (training or batch inference)"),
        c("samples", "count", "samples, images or frames of one run"),
        c("seconds_per_frame_now", "number", "render: seconds for a frame on source_gpu", high=1e7),
        c("runs_per_month", "number", "runs in a month", low=0.01, high=1e6),
        c("gpu_hours_week", "number", "GPU hours in a week today", low=0.01),
        c("deadline", "duration", "how long one run may take", low=1),
        c("mfu", "percent", "share of the peak FLOPS reached; default a range", low=1, high=100),
        c("duty", "percent", "share of the time that it computes", low=0.01, high=100),
        c("peak_window", "text", "when the load is highest, with the time zone"),
        c("growth_12m", "percent", "growth expected in a year", high=10000),
    ]
    data = [
        c("dataset", "size", "data that has to lie beside the GPUs"),
        c("n_files", "count", "its files"),
        c("avg_file", "size", "mean size of a file"),
        c("bytes_per_sample", "size", "read for one sample"),
        c("checkpoint", "size", "size of one checkpoint; default from the parameters"),
        c("checkpoint_every", "duration", "time between checkpoints", low=1),
        c("checkpoints_kept", "number", "checkpoints kept on the server; default 3", high=10000),
        c("source_link", "rate", "the way out of today's place"),
    ]
    limits = [
        c("tolerable_downtime", "duration", "how long it may be away"),
        c("restartable", "bool", "it can be stopped and go on from a checkpoint"),
        c("data_residency", "text", "where the data may be, such as EU or DE"),
        c("secrets_used", "text", "names of secrets that it reads (never their values)"),
        c("licence_bound_to_host", "bool", "a licence that is tied to the machine"),
        c("needs_fp64", "bool", "double precision at full rate"),
        c("needs_ecc", "bool", "memory that corrects errors"),
        c("needs_display", "bool", "graphics output or ray-tracing cores"),
        c("needs_nvenc", "bool", "the video encoder"),
        c("min_compute_capability", "number", "such as 8.0", low=1, high=99),
        c("vendor", "choice", "default nvidia (CUDA)", ("nvidia", "amd", "intel", "any")),
        c("arm_ok", "bool", "images for arm64 exist"),
        c("gpu", "gpu", "only this GPU"),
        c("max_gpus_per_server", "number", "default 8", low=1, high=16),
    ]
    groups = {
        "who": who, "today": today, "model": model, "how": how, "scene": scene, "work": work,
        "data": data, "limits": limits,
    }  # fmt: skip
    return [
        Column(x.name, x.kind, x.help, x.choices, x.low, x.high, group, x.name in _WHOLE)
        for group, columns in groups.items()
        for x in columns
    ]


COLUMNS = {column.name: column for column in _columns()}

# A column may carry its unit in its name, as spreadsheets like it: dataset_gb, deadline_h.
_SUFFIXES: dict[str, dict[str, str]] = {
    "size": {
        x.lower(): x for x in ["B", "KB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB", "PB", "PiB"]
    },
    "duration": {x: x for x in ["s", "min", "h", "d"]},
    "rate": {"gbit_s": "Gbit/s", "mbit_s": "Mbit/s", "gb_s": "GB/s", "mb_s": "MB/s"},
    "count": {"b": "B", "m": "M", "k": "K"},
    "percent": {"pct": "%"},
}


def aliases(columns: Mapping[str, Column]) -> dict[str, tuple[str, str]]:
    """Names with a unit behind them: dataset_gb is (dataset, GB)."""
    return {
        f"{column.name}_{suffix}": (column.name, unit)
        for column in columns.values()
        for suffix, unit in _SUFFIXES.get(column.kind, {}).items()
        if f"{column.name}_{suffix}" not in columns
    }


ALIASES = aliases(COLUMNS)
