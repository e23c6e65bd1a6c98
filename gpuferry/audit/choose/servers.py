"""Workloads onto servers: those that take turns share one, and its bill is for all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuferry.audit.choose.decision import FITS, Decision
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


def plan_servers(fleet: Fleet, decisions: list[Decision], fits: Any) -> list[Server]:
    """First fit, the dearest first. `fits(decision)` gives status and hours on every offer."""
    placed = [d for d in decisions if d.chosen is not None]
    placed.sort(
        key=lambda d: (-(d.chosen.month_cost or 0), -d.chosen.need.mid) if d.chosen else (0, 0)
    )
    index = {offer.id: i for i, offer in enumerate(fleet.offers)}
    servers: list[Server] = []
    taken = np.zeros(len(placed), dtype=int)
    left = np.zeros(len(placed))
    for decision in placed:
        chosen = decision.chosen
        assert chosen is not None
        hours = chosen.month_hours / chosen.servers
        at = index[chosen.offer.id]
        alone = chosen.servers > 1 or hours > BUSY * MONTH_HOURS
        host = None
        if not alone and servers:
            status, needed = fits(decision)
            open_ = taken[: len(servers)]
            room = (status[open_] >= max(FITS, 0)) & (needed[open_] <= left[: len(servers)])
            room &= needed[open_] > 0
            # Sharing must not cost more: an hour here may be dearer than on the own choice.
            extra = np.where(fleet.hourly[open_], fleet.price[open_] * needed[open_], 0.0)
            own = math.inf if chosen.month_cost is None else chosen.month_cost
            room &= ~(extra > own * PREMIUM)
            spots = np.flatnonzero(room)
            if len(spots):
                host = int(spots[0])
                hours = float(needed[open_][host])
        if host is None:
            server = Server("", chosen.offer, chosen.servers)
            servers.append(server)
            host = len(servers) - 1
            taken[host] = at
            left[host] = 0.0 if alone else BUSY * MONTH_HOURS
        servers[host].add(decision, hours)
        left[host] -= hours
    for number, server in enumerate(servers, 1):
        server.name = f"gpu-{number}"
        _bill(fleet, server)
    return servers


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
