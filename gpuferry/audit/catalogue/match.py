"""Names of GPUs: whole tokens, most specific first, and "unknown" rather than a guess."""

from __future__ import annotations

import difflib
import functools
import re
import unicodedata
from dataclasses import dataclass

from gpuferry.audit.catalogue.gpu import Gpu
from gpuferry.audit.catalogue.load import catalogue

# Said by vendors, without telling models apart.
_EMPTY = {
    "nvidia", "amd", "intel", "tesla", "geforce", "instinct", "gpu", "graphics", "card",
    "simulated", "tensor", "core", "per", "generation",
}  # fmt: skip
# Tell models apart where the catalogue's own name has them (H100 80GB HBM3 is the SXM one).
_MEMORY_TYPES = {"hbm2", "hbm2e", "hbm3", "hbm3e", "gddr6", "gddr6x", "gddr7"}
_NUMBER_OF = re.compile(r"^\s*(\d{1,2})\s*[x\u00d7*]\s*(?=\D)|[\s)][x\u00d7*]\s*(\d{1,2})\s*$")

# Words whose absence leaves no other model open.
_HARMLESS = {"rtx", "blackwell", "pcie", "sxm", "gcd"}


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
    text = unicodedata.normalize("NFKC", text).casefold().replace("(2 gcd)", "")
    text = text.replace("_", " ")
    text = re.sub(r"(\d+)\s*(?:gib|gb|g)\b", r" \1gb ", text)
    text = re.sub(r"\b(rtx|gtx)(?=[a-z]?\d)", r"\1 ", text)
    text = re.sub(r"(?<=\d)(ada|nvl|pcie|sxm\d?)\b", r" \1", text)
    text = re.sub(r"\bsxm\d\b", "sxm", text)
    text = re.sub(r"\b(mi|gh|[abhlv])\s+(?=\d)", r"\1", text)  # H 100
    text = re.sub(r"(?<=\d)[\s-]+([sx])\b", r"\1", text)  # L40 S, MI300 X
    text = re.sub(r"(?<![\d.])\b(\d{2,3})\b(?![\d.])", r"\1gb", text)  # V100-32
    return frozenset(w for w in re.findall(r"[a-z0-9]+", text) if w not in _EMPTY)


@functools.lru_cache(maxsize=4096)
def lookup(name: str) -> Match:
    """Find a GPU by the name that people or `nvidia-smi` give it."""
    if number := _NUMBER_OF.search(name):
        alone = lookup((name[: number.start()] + " " + name[number.end() :]).strip())
        if not alone.foreign:
            why = (
                f"names {number.group(1) or number.group(2)} GPUs; their number has its own column"
            )
            return Match(None, (), why, ", ".join(gpu.name for gpu in alone.candidates))
    wanted = tokens(name)
    exact, wider = [], []
    for gpu in catalogue():
        names = [tokens(n) for n in (gpu.name, *gpu.aliases)]
        memory = f"{round(gpu.vram_gb)}gb"
        bare = wanted - _MEMORY_TYPES
        if wanted in names or bare in names or (memory in bare and bare - {memory} in names):
            exact.append(gpu)
        elif any(bare and bare < n | {memory} for n in names):
            wider.append(gpu)
    found = tuple(exact or wider)
    is_number = any(c.isdigit() for word in wanted for c in word)
    if len(found) == 1 and (exact or is_number):
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
