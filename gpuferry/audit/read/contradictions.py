"""Values that are fine alone and cannot be true together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuferry.audit.catalogue.gpu import Gpu
from gpuferry.audit.catalogue.match import lookup
from gpuferry.audit.estimate.need import formula_terms, layout_now
from gpuferry.audit.estimate.work import CEILING
from gpuferry.audit.read.cells import Problem
from gpuferry.audit.read.units import show_duration, show_size
from gpuferry.audit.read.workload import Workload

WEEK_HOURS = 168
_OF_IMAGES = (
    "resolution", "activations_m", "flops_per_sample", "other_params", "cpu_ms_per_sample",
)  # fmt: skip


def of(w: Workload, where: str) -> list[Problem]:
    """All contradictions of a row."""
    found = (*_gpu(w), *_points(w), *_model(w), *_training(w), *_data(w), *_time(w), *_kind(w))
    if not found:  # the formula needs values that go together
        found = (*_weights(w),)
    return [Problem(where, *parts) for parts in found]


Found = Iterator[tuple[str, str, str]] | Iterator[tuple[str, str, str, str]]


def _gpu(w: Workload) -> Found:
    gpu: Gpu | None = None
    for column in ("source_gpu", "gpu"):
        if w.has(column):
            match = lookup(w.text(column))
            # Several are fine for `gpu` (any of them); a GPU of today may be an old one.
            if match.foreign and column == "gpu":
                yield column, w.text(column), match.why, match.accepted
            elif column == "source_gpu" and match.candidates:
                # Where the name leaves several open, no more can be used than the largest has.
                gpu = max(match.candidates, key=lambda g: g.visible_bytes)
    peak = w.number("peak_vram")
    if gpu and peak > gpu.visible_bytes * 1.02:
        total = " (is it the sum? then it belongs into peak_vram_total)"
        why = f"is more than one {gpu.name} has ({show_size(gpu.visible_bytes)}){total}"
        yield "peak_vram", show_size(peak), why
    total_bytes, count = w.number("peak_vram_total"), w.number("gpus_now")
    if gpu and count and total_bytes > gpu.visible_bytes * count * 1.02:
        have = show_size(gpu.visible_bytes * count)
        why = f"is more than {count:g} x {gpu.name} have together ({have})"
        yield "peak_vram_total", show_size(total_bytes), why
    if total_bytes and not count:
        yield "peak_vram_total", show_size(total_bytes), "needs gpus_now: over how many GPUs?"
    elif total_bytes and peak and not peak * 0.98 <= total_bytes <= peak * count * 1.02:
        why = f"does not go with peak_vram {show_size(peak)} on {count:g} GPUs"
        yield (
            "peak_vram_total",
            show_size(total_bytes),
            f"{why} (at most {show_size(peak * count)})",
        )


def _weights(w: Workload) -> Found:
    """A peak that does not even hold the weights is of another model, precision or place."""
    known = w.values.get("peak_vram")
    if known is None or w.family != "llm" or w.has("offload"):
        return
    terms = formula_terms(w, layout_now(w, int(w.number("gpus_now", 1))))
    least = sum(term.low for term in terms if term.name == "weights")
    if known.value < 0.9 * least:
        why = f"is less than the weights alone ({show_size(least)})"
        ways = (
            "weights_precision or method where they are quantised, gpus_now with zero: 3 (FSDP) or "
            "tp where they are spread over GPUs"
        )
        yield "peak_vram", show_size(known.value), why, ways


def _points(w: Workload) -> Found:
    needed = ("batch_small", "vram_small", "batch_large", "vram_large")
    missing = [n for n in needed if not w.has(n)]
    if len(missing) == len(needed):
        return
    if missing:
        yield missing[0], "", f"is missing; F6 needs all of {', '.join(needed)}"
    elif w.number("batch_large") <= w.number("batch_small"):
        yield "batch_large", f"{w.number('batch_large'):g}", "is not larger than batch_small"
    elif w.number("vram_large") <= w.number("vram_small"):
        why = "is not larger than vram_small (a pool that was reserved in advance?)"
        yield "vram_large", show_size(w.number("vram_large")), why


def _model(w: Workload) -> Found:
    least = 1e6
    counted = w.has("weights")  # by the file itself
    if w.family in ("llm", "diffusion") and not counted and 0 < w.number("params") < least:
        said = f"{w.number('params'):g}"
        yield "params", said, f"are too few for {w.family}; did you mean {said}B?"
    hidden, split = w.number("hidden"), w.number("heads")
    if hidden and split and hidden % split and not w.has("head_dim") and not w.has("kv_lora_rank"):
        yield "heads", f"{split:g}", f"does not divide hidden ({hidden:g}); give head_dim"
    if w.number("active_params") > w.number("params") > 0:
        yield "active_params", f"{w.number('active_params'):g}", "is more than params"
    heads, kv = w.number("heads"), w.number("kv_heads")
    if heads and kv and (kv > heads or heads % kv):
        yield "kv_heads", f"{kv:g}", f"does not divide heads ({heads:g})"
    if w.has("full_attention_every") and not w.has("sliding_window"):
        yield "full_attention_every", w.text("full_attention_every"), "needs sliding_window"
    if w.has("params", "layers", "hidden") and w.values["params"].basis != "estimated":
        from gpuferry.audit.read.shape import params_of_shape

        total, _ = params_of_shape({k: v.value for k, v in w.values.items()})
        complete = w.has("heads", "intermediate", "vocab")
        if complete and total and not 0.6 < w.number("params") / total < 1.67:
            why = f"does not go with the shape, which gives {total / 1e9:,.4g}B"
            if w.has("experts"):
                why += "; in a mixture, intermediate is that of one expert"
            yield "params", f"{w.number('params') / 1e9:.3g}B", why
    if w.text("weights_precision").startswith("nf4") and w.kind == "train":
        yield "weights_precision", w.text("weights_precision"), "cannot be trained from scratch"


def _training(w: Workload) -> Found:
    method = w.text("method")
    lora = method in ("lora", "qlora")
    if method and not w.training:
        yield "method", method, f"is for train and finetune, not for {w.kind}"
    if w.has("lora_rank") and not lora:
        yield "lora_rank", f"{w.number('lora_rank'):g}", "needs method lora or qlora"
    if w.number("trainable_params") > w.number("params", 1e30):
        yield "trainable_params", f"{w.number('trainable_params'):g}", "is more than params"
    if method == "full" and w.text("weights_precision") in ("int8", "int4", "nf4", "nf4-dq", "fp4"):
        why = "cannot be trained with method full; use qlora, or leave it out"
        yield "weights_precision", w.text("weights_precision"), why
    if w.training and w.text("precision") in ("int8", "int4"):
        why = "is no precision of training; for quantised weights use method qlora"
        yield "precision", w.text("precision"), why
    split = int(w.number("tp", 1) * w.number("pp", 1) * w.number("dp", 1))
    if w.has("gpus_now") and w.has("dp") and split != w.number("gpus_now"):
        why = f"is not tp x pp x dp = {split:g}"
        yield "gpus_now", f"{w.number('gpus_now'):g}", why
    if not w.training:
        for column in ("optimizer", "zero", "recompute"):
            if w.has(column):
                said = w.values[column].value
                said = f"{said:g}" if isinstance(said, float) else str(said)
                yield column, said, f"is for train and finetune, not for {w.kind}"


def _data(w: Workload) -> Found:
    most = max(CEILING.values()) * 100
    if w.number("mfu") > most:
        why = f"is more than a matrix product reaches on any GPU ({most:.0f} %)"
        yield "mfu", f"{w.number('mfu'):g} %", why
    if w.has("dataset", "n_files", "avg_file") and w.number("n_files"):
        product = w.number("n_files") * w.number("avg_file")
        ratio = product / max(w.number("dataset"), 1)
        if not 0.5 < ratio < 2:
            why = (
                f"does not go with n_files x avg_file = {show_size(product)}; GB for MB, or a "
                "file count of another folder?"
            )
            yield "dataset", show_size(w.number("dataset")), why


def _time(w: Workload) -> Found:
    hours, gpus = w.number("gpu_hours_week"), w.number("gpus_now", 1)
    if w.has("gpu_hours_week", "gpus_now") and hours > WEEK_HOURS * gpus:
        why = f"is more than {gpus:g} GPUs have in a week ({WEEK_HOURS * gpus:g})"
        yield "gpu_hours_week", f"{hours:g}", why
    if w.has("run_time_now", "runs_per_month"):
        busy = w.number("run_time_now") * w.number("runs_per_month")
        if busy > 31 * 86400 * 64:
            why = f"takes {show_duration(busy)} a month with run_time_now: more than 64 at once"
            yield "runs_per_month", f"{w.number('runs_per_month'):g}", why


def _kind(w: Workload) -> Found:
    if w.flag("needs_nvenc") and w.text("vendor") == "amd":
        yield "needs_nvenc", "yes", "is a part of NVIDIA GPUs; vendor says amd"
    if w.has("min_compute_capability") and w.text("vendor") in ("amd", "intel"):
        value = f"{w.number('min_compute_capability'):g}"
        yield "min_compute_capability", value, "is for NVIDIA GPUs only"
    family = w.text("family")
    of_images = [name for name in _OF_IMAGES if w.has(name)]
    if w.family_guessed and of_images:
        why = f"is missing; params with {of_images[0]} are no language model's"
        yield "family", "", why, "diffusion, cnn, other, or llm if it is one"
    if family == "llm" and w.kind in ("render", "sim"):
        yield "family", family, f"does not go with kind {w.kind}"
    if w.has("min_compute_capability"):
        least = f"{w.number('min_compute_capability'):g}"
        if float(least) > 13 or not re.fullmatch(r"\d{1,2}(\.\d)?", least):
            yield "min_compute_capability", least, "is none", "such as 7.5, 8.0, 8.9, 9.0"
