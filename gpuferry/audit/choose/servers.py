"""Workloads onto servers: those that take turns share one, and its bill is for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuferry.audit.choose.decision import FITS, Candidate, Decision
from gpuferry.audit.choose.fleet import Fleet
from gpuferry.audit.offers.offer import MONTH_HOURS, Offer

# A queue that is busier than this lets jobs wait longer than they run (M/M/1: 1 / (1 - 0.7) = 3.3).
BUSY = 0.7
# What one server less to look after may cost.
PREMIUM = 1.1


@dataclass
class Server:
    """One server to rent, or a cluster of equal ones."""

    name: str
    offer: Offer
    count: int
    workloads: list[Decision] = field(default_factory=list)
    hours: float = 0.0
    month_cost: float | None = None
    cores: float = 0.0
    memory: float = 0.0
    disk: float = 0.0
    advice: str = ""

    def add(self, decision: Decision, hours: float) -> None:
        """Take a workload in; disks add up, cores and memory do not."""
        assert decision.chosen is not None
        wants = decision.chosen.host
        self.workloads.append(decision)
        self.hours += hours
        self.cores = max(self.cores, wants.cores)
        self.memory = max(self.memory, wants.memory)
        self.disk += wants.disk


Places = Callable[[Decision], tuple[Any, Any]]


def plan_servers(fleet: Fleet, decisions: list[Decision], places: Places) -> list[Server]:
    """First fit, the dearest first. `places(decision)` gives status and hours on every offer."""
    shared = _Shared(fleet, len(decisions))
    servers: list[Server] = []
    for decision in sorted(decisions, key=_dearest_first):
        chosen = decision.chosen
        if chosen is None:
            continue
        hours = chosen.month_hours / chosen.servers
        alone = chosen.servers > 1 or hours > BUSY * MONTH_HOURS
        if alone or not shared.take(decision, chosen, *places(decision)):
            server = Server("", chosen.offer, chosen.servers)
            server.add(decision, hours)
            servers.append(server)
            if not alone:
                shared.open(server, hours, chosen.host.disk)
    for number, server in enumerate(servers, 1):
        server.name = f"gpu-{number}"
        _bill(fleet, server)
    return servers


def _dearest_first(decision: Decision) -> tuple[float, float]:
    chosen = decision.chosen
    return (-(chosen.month_cost or 0), -chosen.need.mid) if chosen else (0.0, 0.0)


class _Shared:
    """Servers with hours and disk left, as arrays."""

    def __init__(self, fleet: Fleet, most: int) -> None:
        self.fleet = fleet
        self.index = {offer.id: i for i, offer in enumerate(fleet.offers)}
        self.servers: list[Server] = []
        self.offer = np.zeros(most, dtype=int)
        self.hours = np.zeros(most)
        self.disk = np.zeros(most)

    def open(self, server: Server, hours: float, disk: float) -> None:
        """Let others onto a new server."""
        at = len(self.servers)
        self.servers.append(server)
        self.offer[at] = self.index[server.offer.id]
        self.hours[at] = BUSY * MONTH_HOURS - hours
        self.disk[at] = (server.offer.disk or math.inf) - disk

    def take(self, decision: Decision, chosen: Candidate, status: Any, needed: Any) -> bool:
        """Put a workload onto the first server that has room for it and costs no more."""
        count = len(self.servers)
        offers, disk = self.offer[:count], chosen.host.disk
        hours = needed[offers]
        room = (status[offers] == FITS) & (hours > 0)
        room &= (hours <= self.hours[:count]) & (disk <= self.disk[:count])
        # An hour on this machine may be dearer than on the workload's own choice.
        extra = np.where(self.fleet.hourly[offers], self.fleet.price[offers] * hours, 0.0)
        own = math.inf if chosen.month_cost is None else chosen.month_cost
        spots = np.flatnonzero(room & ~(extra > own * PREMIUM))
        if not len(spots):
            return False
        at = int(spots[0])
        self.servers[at].add(decision, float(hours[at]))
        self.hours[at] -= hours[at]
        self.disk[at] -= disk
        return True


def _bill(fleet: Fleet, server: Server) -> None:
    """The cheapest way to pay for these hours on this machine; break-even between the two ways."""
    mine = server.offer
    same = [
        o for o in fleet.alike(mine)
        if (o.kind != "spot" or mine.kind == "spot")
        and _holds(o, server) and o.max_servers >= server.count
    ]  # fmt: skip
    costs = []
    for offer in same or [mine]:
        cost = fleet.source.converted(offer.month_cost(server.hours), offer.currency)
        costs.append((math.inf if cost is None else cost, offer.id != mine.id, offer))
    cost, _, best = min(costs, key=lambda c: c[:2])
    server.month_cost = None if math.isinf(cost) else cost * server.count
    hourly = [o for o in same if o.period == "hour" and o.price]
    monthly = [o for o in same if o.period == "month" and o.price]
    if hourly and monthly:
        by_hour = min(fleet.source.converted(o.price, o.currency) or math.inf for o in hourly)
        by_month = min(
            fleet.source.converted(o.month_cost(0), o.currency) or math.inf for o in monthly
        )
        even = by_month / by_hour
        if math.isfinite(even):
            server.advice = f"a month pays from {even:.0f} h; {server.hours:.0f} h are used"
    if best.id != mine.id:
        old = fleet.source.converted(mine.month_cost(server.hours), mine.currency)
        more = "" if old is None else f" ({old:.2f} as first chosen)"
        server.advice = (
            f"{best.id} is cheaper for {server.hours:.0f} h{more}; {server.advice}".rstrip("; ")
        )
        server.offer = best


def _holds(offer: Offer, server: Server) -> bool:
    pairs = (
        (offer.cpu_cores, server.cores),
        (offer.memory, server.memory),
        (offer.disk, server.disk),
    )
    return all(not have or have >= 0.8 * want for have, want in pairs)
