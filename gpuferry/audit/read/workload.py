"""One row of the table after reading: values in base units, each with basis and date."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

Basis = Literal["measured", "estimated", "declared"]
# Columns that only language models have.
_OF_LANGUAGE = ("seq", "context", "concurrency", "tokens", "config", "layers", "hidden", "vocab")


@dataclass(frozen=True, slots=True)
class Known:
    """A value, where it comes from, and how an unclear text was understood."""

    value: Any
    basis: Basis = "declared"
    date: date | None = None
    note: str = ""

    @property
    def said(self) -> str:
        """Basis and date for people."""
        return f"{self.basis} {self.date}" if self.date else f"{self.basis}, undated"


@dataclass(slots=True)
class Workload:
    """A row. Sizes are bytes, durations seconds, rates bytes per second."""

    row: int
    id: str
    kind: str
    values: dict[str, Known] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    shape: Any = (
        None  # of a transformer, kept by :func:`gpuferry.audit.estimate.transformer.shape_of`
    )
    assumed: tuple[str, ...] | None = None  # kept by :mod:`gpuferry.audit.estimate.need`
    disk: float = 0.0  # kept by :func:`gpuferry.audit.choose.host.host`
    _family: str = ""

    def has(self, *names: str) -> bool:
        """Whether all of these were given."""
        values = self.values
        for name in names:  # noqa: SIM110  (a generator costs more than the test)
            if name not in values:
                return False
        return True

    def number(self, name: str, default: float = 0.0) -> float:
        """A number in its base unit."""
        known = self.values.get(name)
        return default if known is None else float(known.value)

    def text(self, name: str, default: str = "") -> str:
        """A text or a choice."""
        known = self.values.get(name)
        return default if known is None else str(known.value)

    def flag(self, name: str, default: bool = False) -> bool:
        """A yes or no."""
        known = self.values.get(name)
        return default if known is None else bool(known.value)

    def said(self, *names: str) -> str:
        """The weakest basis among these: estimated before declared before measured."""
        known = [self.values[name] for name in names if name in self.values]
        order = {"estimated": 0, "declared": 1, "measured": 2}
        return min(known, key=lambda k: order[k.basis]).said if known else "default"

    @property
    def family(self) -> str:
        """Which formulas fit."""
        if not self._family:
            self._family = self._find_family()
        return self._family

    def _find_family(self) -> str:
        if "family" in self.values:
            return self.text("family")
        if self.kind in ("render", "sim", "etl"):
            return self.kind
        return "llm" if self.has("params") or self.has("layers", "hidden") else "other"

    @property
    def family_guessed(self) -> bool:
        """Taken for a language model because it has params, with nothing that only those have."""
        return (
            self.family == "llm"
            and "family" not in self.values
            and not any(map(self.has, _OF_LANGUAGE))
        )

    @property
    def splits(self) -> bool:
        """Whether it can use several GPUs: frames can; a case only if said, or done today."""
        return self.flag("splits", self.kind != "sim" or self.number("gpus_now", 1) > 1)

    @property
    def training(self) -> bool:
        """Whether it keeps gradients."""
        return self.kind in ("train", "finetune")
