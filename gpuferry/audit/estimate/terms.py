"""An estimate: terms with a range each, the formula they come from, and their arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from gpuferry.audit.read.units import show_size


class Term(NamedTuple):
    """Bytes on one GPU. `how` is the arithmetic with its numbers; `formula` an id such as F3."""

    name: str
    formula: str
    low: float
    mid: float
    high: float
    how: str
    basis: str = "formula"

    def divided(self, by: float) -> Term:
        """The share of one of `by` GPUs."""
        if by == 1:
            return self
        how = f"({self.how}) / {by:g}"
        return self._replace(low=self.low / by, mid=self.mid / by, high=self.high / by, how=how)


_LOW, _MID, _HIGH = (attrgetter(name) for name in ("low", "mid", "high"))


def exact(name: str, formula: str, value: float, how: str, basis: str = "formula") -> Term:
    """A term without a range."""
    return Term(name, formula, value, value, value, how, basis)


class Layout(NamedTuple):
    """How a run is spread over GPUs; tp x pp x dp is their number."""

    gpus: int
    tp: int = 1
    pp: int = 1
    zero: int = 0
    changed: str = ""
    parts: bool = False

    @property
    def dp(self) -> int:
        """Data parallel."""
        return max(1, self.gpus // (self.tp * self.pp))

    @property
    def said(self) -> str:
        """For people."""
        parts = [f"{n} {v}" for n, v in (("TP", self.tp), ("PP", self.pp)) if v > 1]
        if self.zero:
            parts.append(f"ZeRO-{self.zero}{' (FSDP)' if self.zero == 3 else ''} over {self.dp}")
        elif self.dp > 1:
            parts.append(f"{self.dp} {'parts' if self.parts else 'copies'}")
        return ", ".join(parts) or "one GPU"


@dataclass(frozen=True)
class Estimate:
    """What one GPU of a layout needs, in bytes: a likely value within a range."""

    layout: Layout
    terms: tuple[Term, ...]
    basis: str = "estimated"
    notes: tuple[str, ...] = ()
    cross_check: float = 0.0
    mid: float = field(init=False)
    high: float = field(init=False)

    def __post_init__(self) -> None:
        """The sums, once: they are compared with hundreds of offers."""
        object.__setattr__(self, "mid", float(sum(map(_MID, self.terms))))
        object.__setattr__(self, "high", float(sum(map(_HIGH, self.terms))))

    @property
    def low(self) -> float:
        """Lower end of the range."""
        return float(sum(map(_LOW, self.terms)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Terms as plain tuples: they come back from another process in half of the time."""
        terms = tuple(map(tuple, self.terms))
        rest = (self.basis, self.notes, self.cross_check)
        return _estimate, (tuple(self.layout), terms, *rest)

    @property
    def said(self) -> str:
        """The range for people."""
        return f"{show_size(self.mid)} ({show_size(self.low)} to {show_size(self.high)})"


def _estimate(
    layout: tuple[Any, ...], terms: tuple[tuple[Any, ...], ...], basis: str,
    notes: tuple[str, ...], cross_check: float,
) -> Estimate:  # fmt: skip
    made = tuple(map(Term._make, terms))
    return Estimate(Layout._make(layout), made, basis, notes, cross_check)
