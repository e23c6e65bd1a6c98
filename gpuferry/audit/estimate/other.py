"""F6 and F7: diffusion, CNN, rendering, simulation, and whatever was measured at two sizes."""

from __future__ import annotations

from collections.abc import Iterator

from gpuferry.audit.estimate import formulas as f
from gpuferry.audit.estimate import states
from gpuferry.audit.estimate.language import overhead
from gpuferry.audit.estimate.terms import Layout, Term, exact
from gpuferry.audit.estimate.transformer import shape_of
from gpuferry.audit.read.units import show_size
from gpuferry.audit.read.workload import Workload

MEGAPIXEL = 1e6


def two_points(w: Workload) -> Iterator[Term]:
    """F6: slope and intercept of two measured batch sizes; do not theorise about convolutions."""
    small, large = w.number("batch_small"), w.number("batch_large")
    slope = (w.number("vram_large") - w.number("vram_small")) / (large - small)
    base = w.number("vram_small") - slope * small
    batch = w.number("batch", large)
    # Beyond the measured range a line is a guess: 3 % wider for every doubling.
    beyond = max(0.0, batch / large - 1)
    basis = w.said("vram_small", "vram_large")
    how = f"intercept of batch {small:g} and {large:g}"
    yield exact("fixed part", "F6", max(base, 0.0), how, basis)
    value = slope * batch
    how = f"{show_size(slope)} x batch {batch:g}"
    yield Term("for each sample", "F6", value, value, value * (1.05 + 0.03 * beyond), how, basis)


def can_two_points(w: Workload) -> bool:
    """Whether both measurements are there."""
    return w.has("batch_small", "vram_small", "batch_large", "vram_large")


def convolution(w: Workload, layout: Layout) -> Iterator[Term]:
    """F2 and F6c: every convolution's output is kept, and its normalised copy.

    `activations_m` counts convolution outputs for one sample (Radosavovic 2020, arXiv:2003.13678,
    section 3.1; tables of model zoos print it): ResNet-50 at 224 pixels has 11.1 million.
    """
    shape = shape_of(w)
    b = w.number("batch", 1)
    width = 4.0 if states.precision_of(w) in ("fp32", "tf32", "fp64") else 2.0
    count = w.number("activations_m") * 1e6
    if w.training:
        terms = [*states.training_states(w, shape, layout)]
        yield from terms
        value = 2 * count * width * b
        how = f"2 x {count / 1e6:g}e6 x {width:g} B x batch {b:g}"
        kept = Term("activations", "F6", 0.85 * value, value, 1.3 * value, how)
    else:
        terms = [*states.base_weights(w, shape, layout)]
        yield from terms
        value = 0.3 * count * width * b
        how = f"0.3 x {count / 1e6:g}e6 x {width:g} B x batch {b:g} (a few layers at a time)"
        kept = Term("activations", "F6", value / 2, value, 2 * value, how)
    if count:
        yield kept
    # cuDNN tries several algorithms and keeps the largest workspace.
    yield Term("cuDNN workspace", "F5", 0.1 * f.GIB, 0.3 * f.GIB, 1.0 * f.GIB, "assumed")
    yield from overhead([*terms, kept], layout, w)


def diffusion(w: Workload, layout: Layout) -> Iterator[Term]:
    """F1, F2 and F6d: all components, the denoiser's work and the decoder's largest tensors."""
    shape = shape_of(w)
    width, height = w.values["resolution"].value if w.has("resolution") else (1024, 1024)
    b = w.number("batch", 1)
    precision = states.weights_precision_of(w)
    if w.training:
        terms = [*states.training_states(w, shape, layout)]
    else:
        terms = [*states.base_weights(w, shape, layout)]
    others = f.weights(w.number("other_params"), "bf16" if precision in f.QUANTISED else precision)
    if others:
        how = f"{w.number('other_params') / 1e9:.4g}e9 x {f.BYTES['bf16']:g} B or as the weights"
        terms.append(exact("text encoder, VAE", "F1", others, how))
    yield from terms
    each = 4.0 if precision in ("fp32", "tf32") else 2.0
    pixels = width * height * b
    if w.training:
        mid = 5.0 * f.GIB * pixels / MEGAPIXEL * each / 2
        if w.text("recompute") == "full":
            mid *= 0.35
        how = f"5 GiB for a megapixel in 16 bits, {pixels / MEGAPIXEL:.3g} of them (assumed)"
        yield Term("activations", "F6", 0.4 * mid, mid, 1.8 * mid, how, "assumed")
    else:
        # The decoder's last stage holds tensors of 256 channels at full resolution (the VAE of
        # Stable Diffusion and SDXL); 4 to 5 of them live at once. In 16 bits some are upcast.
        value = 256 * pixels * each
        how = f"3 to 9 tensors of {width} x {height} x 256 x {each:g} B x {b:g}"
        yield Term("VAE decode", "F6", 3 * value, 4.5 * value, 9 * value, how)
        kept = f.GIB * pixels / MEGAPIXEL
        how = "blocks of the denoiser that the allocator keeps, 1.5 GiB a megapixel (from FLUX.1)"
        yield Term("denoiser's blocks", "F5", 0.0, 1.5 * kept, 2.5 * kept, how)
    yield from overhead(terms, layout, w, share=0.25)


def rendering(w: Workload, layout: Layout) -> Iterator[Term]:
    """F7: every card holds the whole scene; cards do not add their memory without NVLink."""
    geometry = w.number("geometry")
    if geometry:
        yield exact("geometry", "F7", geometry, "as given", w.said("geometry"))
        how = "0.5 to 1.5 x geometry"
        yield Term("BVH", "F7", 0.5 * geometry, geometry, 1.5 * geometry, how)
    textures = w.number("textures")
    how = show_size(textures)
    if not textures and w.has("texture_count", "texture_resolution"):
        x, y = w.values["texture_resolution"].value
        textures = w.number("texture_count") * x * y * 4
        how = f"{w.number('texture_count'):g} x {x} x {y} x 4 B"
    if textures:
        how = f"{how}, mip maps x 1.33"
        yield Term("textures", "F7", textures, textures * 1.33, textures * 4, how)
    x, y = w.values["resolution"].value if w.has("resolution") else (1920, 1080)
    passes = w.number("passes", 4)
    frame = x * y * 16 * passes
    how = f"{x} x {y} x 16 B x {passes:g} passes, denoiser up to 3 more"
    yield Term("frame buffers", "F7", frame, 2 * frame, 4 * frame, how)
    yield Term(
        "kernels", "F7", 0.5 * f.GIB, 1.0 * f.GIB, 2.0 * f.GIB, "renderer's kernels, assumed"
    )
    yield from overhead([], layout, w)


def simulation(w: Workload, layout: Layout) -> Iterator[Term]:
    """F6: cells times bytes for a cell, divided over GPUs where the case can be cut."""
    cells = w.number("cells")
    split = layout.gpus if w.splits else 1
    if w.has("bytes_per_cell"):
        each = w.number("bytes_per_cell")
        low, mid, high, basis = each, each, 1.15 * each, w.said("bytes_per_cell")
        how = f"{cells:.4g} cells x {each:g} B"
    else:
        low, mid, high, basis = 500.0, 1500.0, 3000.0, "assumed"
        how = f"{cells:.4g} cells x 500 to 3000 B (assumed: run a small case)"
    yield Term("fields", "F6", cells * low, cells * mid, cells * high, how, basis).divided(split)
    if split > 1:
        halo = cells * mid / split * 0.1
        yield Term("halos", "F6", halo / 2, halo, 2 * halo, "about 10 % of a part")
    yield from overhead([], layout, w)
