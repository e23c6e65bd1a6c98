"""F8 to F13: time, network, host, storage, transfer, and when a newer GPU is worth it. Pure."""

from __future__ import annotations

# Largest share of the peak that a matrix product reaches (ml-engineering@744d01e1, MAMF table).
CEILING = {
    "A100": 0.87, "H100": 0.80, "B200": 0.78, "B300": 0.79, "GB200": 0.73, "MI355X": 0.68,
    "MI325X": 0.60, "MI300X": 0.51,
}  # fmt: skip
# Plan with 0.3 to 0.5 of the peak (same source, chapter on training performance).
MFU = (0.5, 0.4, 0.3)
# Convolutions wait for memory. ResNet-50, mixed precision, 3 x 8.2 GFLOPs an image: 1200 images/s
# on a V100 (24 % of 125 TFLOPS), 2470 on an A100 (19 %; both DeepLearningExamples@291f0d02,
# ResNet-50 v1.5), 2790 on an H100 (7 %; lambdal).
MFU_CNN = (0.25, 0.15, 0.07)
LINK_SHARE = 0.8
MONTH_HOURS = 730.0


def training_flops(params: float, tokens: float, *, recompute: bool, frozen: bool) -> float:
    """F8: `6 P T`; 2 more where the forward pass is repeated; 2 less where weights are frozen.

    Kaplan 2020 (arXiv:2001.08361), section 2.1: 2 forward, 4 backward, half of it for weights.
    """
    return params * tokens * (6 + 2 * recompute - 2 * frozen)


def seconds(flops: float, gpus: float, tflops: float, mfu: float) -> float:
    """F8: `FLOPs / (N x peak x MFU)`. Vector: 6 x 7e9 x 1e9 on 8 A100 at 0.4: 11.7 h."""
    return flops / (gpus * tflops * 1e12 * mfu)


def all_reduce_bytes(gradient_bytes: float, gpus: int) -> float:
    """F9: what one GPU sends in a step of data parallel training: `2 (n - 1) / n` (ring)."""
    return 2 * (gpus - 1) / gpus * gradient_bytes


def link_needed(bytes_sent: float, compute_seconds: float) -> float:
    """F9: bytes per second, one way, so that sending hides behind computing at 80 % of the link."""
    return bytes_sent / (LINK_SHARE * compute_seconds)


def transfer_bound(bytes_sent: float, link: float) -> float:
    """F9: seconds at the whole link. Vector: 16 GB over 10 Gbit/s: 12.8 s."""
    return bytes_sent / link


def cores(gpus: int, workers: float) -> float:
    """F10: `G (workers + 1) + 4`; workers 2 for language models to 4 and more for images."""
    return gpus * (workers + 1) + 4


def feed_bytes_s(gpus: int, samples_s: float, bytes_per_sample: float) -> float:
    """F11: what storage has to deliver, with a third of reserve."""
    return gpus * samples_s * bytes_per_sample * 1.3


def capacity_bytes(raw: float, converted: float, checkpoints: float, images: float) -> float:
    """F11: file systems are dependable up to about 80 % of their size."""
    return (raw + converted + checkpoints + images) / 0.8


def transfer_seconds(
    size: float, link: float, files: float, latency: float = 0.03, parallel: float = 16
) -> float:
    """F12: `bytes / (0.8 link) + files x latency / concurrency`; pack if the second wins."""
    return size / (LINK_SHARE * link) + files * latency / parallel


def worth_upgrading(speed_up: float, price_ratio: float, *, brings_feature: bool) -> bool:
    """F13: measured on the same software, a newer GPU has to be quicker than it is dearer.

    Gate 1 is a data type or feature that the stack can use today, gate 2 cost for a step.
    """
    return brings_feature and speed_up > price_ratio
