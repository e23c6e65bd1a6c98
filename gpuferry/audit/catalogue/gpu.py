"""One GPU of the catalogue, and what follows from its compute capability."""

from __future__ import annotations

import re
from dataclasses import dataclass

# CUDA C++ Programming Guide, "Throughput of native arithmetic instructions": 64-bit results per
# clock and multiprocessor are 32 (7.0, 8.0) or 64 (9.0, 10.0); all others have 2. CDNA: full rate.
_FULL_FP64 = {"7.0", "8.0", "9.0", "10.0", "gfx90a", "gfx942", "gfx950"}
# Compute chips have no ray-tracing cores, display outputs or NVENC (vendors' chip overviews).
_NO_GRAPHICS = {*_FULL_FP64, "10.3", "-"}
# NVIDIA MIG user guide, "Supported GPUs": instances of one GPU.
_MIG = {
    "A30": 4, "A100": 7, "H100": 7, "H200": 7, "GH200": 7, "B200": 7, "B300": 7, "GB200": 7,
    "GB300": 7, "RTX PRO 6000": 4,
}  # fmt: skip


# FP32 units of a multiprocessor, and its tensor cores (CUDA C++ Programming Guide, "Throughput of
# native arithmetic instructions"; NVIDIA's architecture papers).
_FP32_UNITS = {"7.0": 64, "7.5": 64, "8.0": 64}
_TENSOR_CORES = {"7.0": 8, "7.5": 8}


@dataclass(frozen=True)
class Gpu:
    """One device as a process sees it; a card with two dies is two devices."""

    name: str
    vendor: str
    arch: str
    compute_capability: str
    vram_gb: float
    visible_mib: float
    visible_source: str
    mem_bw_gbs: float
    fp16_tflops: float
    bf16_tflops: float
    fp8_tflops: float
    interconnect: str
    interconnect_gbs: float
    tdp_w: float
    form: str
    year: int
    source: str
    aliases: tuple[str, ...] = ()
    devices_per_card: int = 1
    tensor: tuple[float, float, float] | None = None

    @property
    def visible_bytes(self) -> float:
        """Memory that `nvidia-smi` shows for one device."""
        return self.visible_mib * 2**20

    @property
    def capability(self) -> float:
        """The CUDA compute capability as a number, 0 for other vendors."""
        is_cuda = re.fullmatch(r"\d+\.\d", self.compute_capability)
        return float(self.compute_capability) if is_cuda else 0.0

    @property
    def full_fp64(self) -> bool:
        """Double precision at half the single-precision rate, not 1/32 or 1/64."""
        return self.compute_capability in _FULL_FP64

    @property
    def graphics(self) -> bool:
        """Ray-tracing cores, display engine and NVENC (the A16 and A2 have them too)."""
        return self.compute_capability not in _NO_GRAPHICS and self.vendor != "Intel"

    @property
    def ecc(self) -> bool:
        """Memory with error correction over the whole path; GeForce has none."""
        return self.form != "GeForce"

    @property
    def ecc_costs(self) -> bool:
        """Whether switching ECC on takes 1/16 of the visible memory.

        So it is on GDDR6 workstation cards, whose listings have ECC off.
        """
        return self.form != "GeForce" and self.name.startswith(("RTX A", "RTX 4000 Ada",
            "RTX 5000 Ada", "RTX 6000 Ada", "Quadro RTX"))  # fmt: skip

    @property
    def arm_host(self) -> bool:
        """The processor beside it is an Arm, which needs arm64 images."""
        return "Arm" in self.form

    @property
    def nvlink(self) -> bool:
        """All GPUs of a board reach each other without PCIe."""
        return self.interconnect_gbs >= 250 and "bridge" not in self.interconnect

    @property
    def link_bytes_s(self) -> float:
        """One way, as half of the bidirectional figure; a bridge joins pairs only."""
        one_way = self.interconnect_gbs / 2
        if "bridge" in self.interconnect:
            one_way = 32.0 if self.compute_capability not in ("7.5", "7.0") else 16.0
        return one_way * 1e9

    @property
    def mig_slices(self) -> int:
        """Instances that MIG can make of it; 0: none."""
        for name, count in _MIG.items():
            if re.match(rf"{name}\b", self.name):
                return count
        return 0

    @property
    def shader_tflops(self) -> float:
        """FP32 peak without tensor cores, which renderers do not use.

        Where the number of multiprocessors is not in the catalogue: 1/32 of FP16, as on the B200
        (2250 and about 70) and below what other chips have.
        """
        if self.tensor is None:
            return self.fp16_tflops / 32
        cores, _, mhz = self.tensor
        processors = cores / _TENSOR_CORES.get(self.compute_capability, 4)
        return processors * _FP32_UNITS.get(self.compute_capability, 128) * 2 * mhz / 1e6

    def tflops(self, precision: str) -> float:
        """Dense peak for a precision, 0 where the hardware lacks it.

        fp32 counts the TF32 tensor path as half of FP16; FP64 is not estimated.
        """
        base = precision.removesuffix("-pure")
        if base == "fp8":
            return self.fp8_tflops
        if base in ("bf16", "fp16"):
            return self.bf16_tflops if base == "bf16" else self.fp16_tflops
        if base == "tf32":
            return self.bf16_tflops / 2 if self.capability >= 8 else 0.0
        if base == "fp32":
            return self.fp16_tflops / (2 if self.capability >= 8 else 8)
        return self.fp16_tflops

    def supports(self, precision: str) -> bool:
        """Whether the hardware computes in it (BF16 from 8.0, FP8 from 8.9, FP4 from 10.0)."""
        base = precision.removesuffix("-pure")
        if base == "fp4":
            return self.capability >= 10 or self.compute_capability == "gfx950"
        return base not in ("bf16", "tf32", "fp8") or self.tflops(base) > 0
