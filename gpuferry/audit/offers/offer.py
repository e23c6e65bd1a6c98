"""One offer: a machine, its price, and when that was true."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from gpuferry.audit.catalogue.gpu import Gpu

STALE_DAYS = 90
MONTH_HOURS = 730.0


@dataclass(frozen=True)
class Offer:
    """A rentable machine. Sizes in bytes, rates in bytes per second; 0: not stated."""

    id: str
    provider: str
    gpu: Gpu
    gpus: int
    visible_bytes: float
    share: float = 1.0
    mig: str = ""
    cpu_cores: float = 0.0
    memory: float = 0.0
    disk: float = 0.0
    network: float = 0.0
    price: float | None = None
    currency: str = ""
    period: str = "hour"
    setup_fee: float = 0.0
    term_months: float = 0.0
    date: dt.date | None = None
    kind: str = "on-demand"
    region: str = ""
    source: str = ""
    max_servers: int = 1

    @property
    def devices(self) -> int:
        """GPUs as processes see them: a card with two dies is two."""
        return self.gpus * self.gpu.devices_per_card

    @property
    def stale_days(self) -> int | None:
        """Age of the price in days, None when it has no date."""
        if self.date is None:
            return None
        return (dt.datetime.now(dt.UTC).date() - self.date).days

    @property
    def price_note(self) -> str:
        """What is wrong with the price; empty when nothing is."""
        if self.price is None:
            return "no price"
        age = self.stale_days
        if age is None:
            return "price has no date"
        return f"price is {age} days old" if age > STALE_DAYS else ""

    def month_cost(self, hours: float) -> float | None:
        """Cost of a month with so many hours of use; a monthly price is due whatever is used.

        The setup fee is spread over the minimum term, 12 months where none is stated.
        """
        if self.price is None:
            return None
        setup = self.setup_fee / (self.term_months or 12)
        return setup + (self.price if self.period == "month" else self.price * hours)

    @property
    def name(self) -> str:
        """For people."""
        mig = f" MIG {self.mig}" if self.mig else ""
        return f"{self.gpus} x {self.gpu.name}{mig}"
