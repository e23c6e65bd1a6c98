"""Names of GPUs: whole tokens, most specific first, and "unknown" rather than a guess."""

from __future__ import annotations

import difflib
import functools
import re
from dataclasses import dataclass

from gpuferry.audit.catalogue.gpu import Gpu
from gpuferry.audit.catalogue.load import catalogue

# Said by vendors, without telling models apart.
_EMPTY = {
    "nvidia", "amd", "intel", "tesla", "geforce", "instinct", "gpu", "graphics", "card",
    "simulated", "tensor", "core", "per", "hbm2", "hbm2e", "hbm3", "hbm3e", "gddr6", "gddr7",
    "generation",
}  # fmt: skip


# Words whose absence leaves no other model open.
_HARMLESS = {"rtx", "blackwell", "pcie", "sxm2", "gcd"}


@dataclass(frozen=True)
class Match:
    """One GPU, several that the name leaves open, or none."""

    gpu: Gpu | None
    candidates: tuple[Gpu, ...] = ()
    why: str = ""
    accepted: str = ""

    @property
    def foreign(self) -> bool:
        """A name that the catalogue does not know at all."""
        return not self.candidates


def tokens(text: str) -> frozenset[str]:
    """The words of a name that tell models apart."""
    text = text.casefold().replace("(2 gcd)", "")
    text = re.sub(r"(\d+)\s*(?:gib|gb|g)\b", r" \1gb ", text)
    text = re.sub(r"\b(rtx|gtx)(?=[a-z]?\d)", r"\1 ", text)
    text = re.sub(r"(?<=\d)(ada)\b", r" \1", text)
    return frozenset(w for w in re.findall(r"[a-z0-9]+", text) if w not in _EMPTY)


@functools.lru_cache(maxsize=4096)
def lookup(name: str) -> Match:
    """Find a GPU by the name that people or `nvidia-smi` give it."""
    wanted = tokens(name)
    exact, wider = [], []
    for gpu in catalogue():
        names = [tokens(n) for n in (gpu.name, *gpu.aliases)]
        memory = f"{round(gpu.vram_gb)}gb"
        if wanted in names or (memory in wanted and wanted - {memory} in names):
            exact.append(gpu)
        elif any(wanted and wanted < n | {memory} for n in names):
            wider.append(gpu)
    found = tuple(exact or wider)
    is_number = any(c.isdigit() for word in wanted for c in word)
    if len(found) == 1 and is_number:
        gpu = found[0]
        missing = [tokens(n) - wanted for n in (gpu.name, *gpu.aliases)]
        if exact or any(m <= _HARMLESS | {f"{round(gpu.vram_gb)}gb"} for m in missing):
            return Match(gpu, found)
    accepted = ", ".join(gpu.name for gpu in found)
    if len(found) > 1:
        return Match(None, found, f"can be {len(found)} GPUs", accepted)
    near = difflib.get_close_matches(name, [g.name for g in catalogue()], n=3, cutoff=0.5)
    accepted = ", ".join(near) if near else "see `./ferry audit gpus`"
    return Match(None, (), "is unknown to the catalogue", accepted)
