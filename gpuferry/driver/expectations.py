"""What a healthy GPU of a model shows: `rules/expectations.yaml`, found by PCI id or by name."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict

from gpuferry.driver.rules import table

# Words that make another model of the same number; a name that has one needs a row that has it too.
VARIANTS = {
    "ti", "super", "laptop", "mobile", "max", "d", "v2", "ada", "nvl", "pcie", "server",
    "workstation", "embedded",
}  # fmt: skip


class Expectation(BaseModel):
    """Units as in the names; None: no source, so nothing may be judged.

    `memory_gb` is nominal (10^9 bytes and 2^30 are both in use for it): a GPU shows up to a tenth
    less, more so with ECC on GDDR. `memory_mib` is exact, for the default ECC setting.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    ids: list[str]
    tokens: list[str]
    memory_gb: float
    memory_mib: int | None
    power_watts: float | None
    sm_clock_mhz: int | None
    pcie_generation: int | None
    pcie_width: int | None
    source: list[str]


def models() -> list[Expectation]:
    """All rows."""
    return [Expectation.model_validate(row) for row in table("expectations")["models"]]


def by_pci_id(device: str, subsystem: str = "") -> Expectation | None:
    """The row of a PCI device id; a few ids need the subsystem's id as well (A2 and A16)."""
    wanted = {device.lower(), f"{device.lower()}:{subsystem.lower()}"}
    return next((row for row in models() if wanted & set(row.ids)), None)


def by_name(name: str) -> Expectation | None:
    """The row of a model's name, as declared or as nvidia-smi shows it; None when in doubt.

    Names are compared by whole words: `A100` is not `A10`, and `RTX 4090 Laptop` is no `RTX 4090`.
    """
    for row in models():
        if row.name.lower() == name.strip().lower():
            return row
    words = set(re.findall(r"[a-z0-9]+", name.lower()))
    fitting = []
    for row in models():
        tokens = {token.lower() for token in row.tokens}
        if tokens <= words and not (words & VARIANTS) - tokens:
            fitting.append((len(tokens), row))
    best = max((count for count, _ in fitting), default=0)
    rows = [row for count, row in fitting if count == best]
    return rows[0] if len(rows) == 1 else None
