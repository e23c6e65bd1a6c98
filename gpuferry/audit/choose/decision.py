"""What is decided for one workload, with everything that the reasons need."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuferry.audit.choose.host import Host, reasons
from gpuferry.audit.estimate.terms import Estimate, Layout
from gpuferry.audit.offers.offer import Offer
from gpuferry.audit.read.workload import Workload

NO, TIGHT, FITS = 0, 1, 2
WORDS = {NO: "does not fit", TIGHT: "tight", FITS: "fits"}
# Bands of the predicted peak over the visible memory: to 85 % it fits, to 95 % only a measured step
# tells. The upper end of the range must stay below 95 % too.
FIT, MOST = 0.85, 0.95


@dataclass(frozen=True)
class Candidate:
    """One offer for one workload. Times in seconds, money in the common currency."""

    offer: Offer
    servers: int
    status: int
    layout: Layout
    need: Estimate
    host: Host
    seconds: tuple[float, float, float] | None
    month_hours: float
    month_cost: float | None
    run_cost: float | None
    reasons: tuple[str, ...] = ()
    speed: float = 1.0

    def host_how(self, w: Workload) -> dict[str, str]:
        """The arithmetic of what it needs beside the GPUs."""
        return reasons(w, self.offer.devices, self.need, self.speed)

    @property
    def word(self) -> str:
        """fits, tight or does not fit."""
        return WORDS[self.status]

    @property
    def fill(self) -> float:
        """Predicted peak over visible memory of one GPU."""
        return self.need.mid / self.offer.visible_bytes


@dataclass(frozen=True)
class Limit:
    """One thing that a server has and a workload uses."""

    name: str
    use: float
    have: float
    said: str

    @property
    def growth(self) -> float:
        """By how much the load can grow before this is used up, in percent."""
        return (self.have / self.use - 1) * 100 if self.use else float("inf")


@dataclass(frozen=True)
class GpuFit:
    """One GPU of the catalogue for one workload, on one GPU or the best of several."""

    name: str
    status: int
    why: str
    gpus: int = 1


@dataclass
class Decision:
    """The answer for one workload."""

    workload: Workload
    need: Estimate | None
    chosen: Candidate | None
    others: list[Candidate] = field(default_factory=list)
    refused: str = ""
    notes: list[str] = field(default_factory=list)
    gpus: list[GpuFit] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    over_rented: str = ""
    grow: list[str] = field(default_factory=list)
    time_how: str = ""
    cheaper: list[tuple[Offer, str]] = field(default_factory=list)
    plotted: Decision | None = None

    @property
    def status(self) -> str:
        """For people."""
        return self.chosen.word if self.chosen else "no offer fits"
