"""All offers as arrays, and the choice for one workload among them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gpuferry.audit.catalogue.load import catalogue
from gpuferry.audit.choose import eligible
from gpuferry.audit.choose.decision import FIT, FITS, MOST, NO, TIGHT, Candidate, Decision
from gpuferry.audit.choose.host import Host, fed_by_host, host
from gpuferry.audit.choose.place import inside
from gpuferry.audit.choose.timing import Speeds, Timing, one_gpu, relative, spread
from gpuferry.audit.estimate.need import estimate, floor_gib, layouts
from gpuferry.audit.estimate.terms import Estimate, Layout
from gpuferry.audit.offers.load import Offers
from gpuferry.audit.offers.offer import MONTH_HOURS, Offer
from gpuferry.audit.read.workload import Workload

KEPT = 5
HUGE = 1e30
NEAR = 1.05
Ints = np.ndarray[Any, np.dtype[np.int8]]
Floats = np.ndarray[Any, np.dtype[np.float64]]


class Option(NamedTuple):
    """One way to run a workload on so many GPUs."""

    layout: Layout
    need: Estimate
    timing: Timing | None
    host: Host


class Fleet:
    """Offers in columns, so that one workload is compared with all of them at once."""

    def __init__(self, offers: Offers) -> None:
        self.source = offers
        self.offers = offers.offers
        gpus = catalogue()
        self.speeds = Speeds(gpus)
        rows = self.offers
        self.gpu = np.array([self.speeds.index[o.gpu.name] for o in rows], dtype=int)
        self.devices = np.array([o.devices for o in rows], dtype=int)
        self.visible = np.array([o.visible_bytes for o in rows])
        with_ecc = np.array([o.visible_bytes * (15 / 16 if o.gpu.ecc_costs else 1) for o in rows])
        self.bands = {
            False: (FIT * self.visible, MOST * self.visible),
            True: (FIT * with_ecc, MOST * with_ecc),
        }
        self.vram_gb = np.array([o.visible_bytes / 2**30 if o.mig else o.gpu.vram_gb for o in rows])
        self.share = np.array([o.share for o in rows])
        self.mig = np.array([bool(o.mig) for o in rows])
        # What a seller does not state is not held against the offer; the report says so.
        stated = [(o.cpu_cores, o.memory, o.disk) for o in rows]
        self.beside = np.array([[x or math.inf for x in some] for some in stated]).T
        self.spot = np.array([o.kind == "spot" for o in rows])
        self.regions = np.array([o.region for o in rows])
        self.hourly = np.array([o.period == "hour" for o in rows])
        self.price = np.array([self._price(o.price, o.currency) for o in rows])
        setup = [self._price(o.setup_fee, o.currency) / (o.term_months or 12) for o in rows]
        self.setup = np.nan_to_num(np.array(setup))
        self.counts = sorted({int(n) for n in self.devices})
        self.count_at = np.array([self.counts.index(int(n)) for n in self.devices], dtype=int)
        self.cell = self.count_at * len(gpus) + self.gpu
        self.nvlink = self.speeds.nvlink[self.gpu]
        self.slices = self.mig & (self.devices > 1)
        # Without a price the smallest machine is the best guess at the cheapest one.
        fp16 = np.array([o.gpu.fp16_tflops for o in rows])
        self.size = self.devices * (self.visible / 2**30 + fp16 / 10)
        self._refused: dict[eligible.Key, tuple[list[str], Any]] = {}
        self._alike: dict[tuple[object, ...], list[Offer]] = {}
        self._places: dict[str, tuple[Any, Any]] = {}

    def _price(self, value: float | None, currency: str) -> float:
        converted = self.source.converted(value, currency)
        return math.nan if converted is None else converted

    def refusals(self, w: Workload) -> list[str]:
        """Why a GPU cannot be used, for each of the catalogue; empty where it can."""
        return self._refused_by(w)[0]

    def allowed(self, w: Workload) -> Any:
        """Which GPUs of the catalogue may be used at all."""
        return self._refused_by(w)[1]

    def _refused_by(self, w: Workload) -> tuple[list[str], Any]:
        key = eligible.key(w)
        if key not in self._refused:
            answers = [eligible.refusal(w, gpu) for gpu in self.speeds.gpus]
            self._refused[key] = answers, np.array([not why for why in answers])
        return self._refused[key]

    def decide(self, w: Workload, kept: int = KEPT) -> Decision:
        """Choose among single servers; :mod:`cluster` goes on where none does.

        `kept` candidates are described, the best first.
        """
        first = next(iter(layouts(w, 1)), Layout(1))
        base = estimate(w, first)
        if base is None:
            return Decision(w, None, None, refused=_nothing_known(w))
        usable = self.allowed(w)[self.gpu] & (self.devices <= w.number("max_gpus_per_server", 8))
        status = np.zeros(len(self.offers), dtype=np.int8)
        seconds = np.full(len(self.offers), math.nan)
        which = np.zeros(len(self.offers), dtype=np.int8)
        options: list[dict[int, Option]] = []
        alone = one_gpu(w, self.speeds)
        for rank in (0, 1):
            # The second way to spread a run is looked at where the first does not fit.
            open_ = usable & (status < FITS)
            there = np.bincount(self.count_at[open_], minlength=len(self.counts))
            wanted = [n for n, number in zip(self.counts, there, strict=True) if number]
            ways = self._ways(w, rank, wanted, first, base, alone)
            options.append(ways)
            if not ways:
                continue
            found, times = self._judge(w, base, ways)
            better = usable & (found > status)
            np.copyto(status, found, where=better)
            which[better] = rank
            if times is not None:
                np.copyto(seconds, times, where=better)
        status = self._other_limits(w, status)
        hours = self._hours(w, seconds)
        cost = self._cost(hours)
        self._places[w.id] = (status, hours.astype(np.float32))
        picked = [
            self._candidate(w, int(i), int(status[i]), options, which, hours, cost)
            for i in self._order(status, cost, kept)
        ]
        timings = [o.timing for ways in options for o in ways.values() if o.timing]
        decision = Decision(w, base, picked[0] if picked else None, picked[1:])
        decision.time_how = f"{timings[0].formula}: {timings[0].how}" if timings else ""
        return decision

    def _ways(
        self, w: Workload, rank: int, counts: list[int], first: Layout, base: Estimate,
        alone: Timing | None,
    ) -> dict[int, Option]:  # fmt: skip
        """The layout of this rank for every number of GPUs, with what it needs."""
        ways: dict[int, Option] = {}
        copies: Estimate | None = None
        for count in counts:
            choice = layouts(w, count)
            if rank >= len(choice):
                continue
            layout = choice[rank]
            need: Estimate | None = base
            if layout != first:
                alike = layout.gpus > 1 and layout.tp == layout.pp == 1 and not layout.zero
                if alike and copies is not None and w.kind != "sim":
                    need = replace(copies, layout=layout)  # a copy needs the same on 2, 4, 8
                else:
                    need = estimate(w, layout)
                    copies = need if alike else copies
            if need is not None:
                timing = spread(alone, self.speeds, layout) if alone else None
                ways[count] = Option(layout, need, timing, host(w, count, need))
        return ways

    def _judge(
        self, w: Workload, base: Estimate, ways: dict[int, Option]
    ) -> tuple[Any, Floats | None]:
        """Status and times of all offers at once; numbers of GPUs without a way do not fit."""
        deadline = w.number("deadline")
        nothing = (HUGE,) * 6
        table = np.array([
            (n.mid, n.high, h.cores, h.memory, h.disk, layout.tp)
            for layout, n, _, h in ways.values()
        ] + [nothing])  # fmt: skip
        at = {count: row for row, count in enumerate(ways)}
        rows = np.array([at.get(count, len(ways)) for count in self.counts])
        mid, high, *wants, tp = table.T.take(rows.take(self.count_at), axis=1)
        fit, most = self.bands[w.flag("needs_ecc")]
        found = (mid <= most).view(np.int8) + ((mid <= fit) & (high <= most)).view(np.int8)
        if fed_by_host(w):
            wants[0] = wants[0] * self._speeds(ways)[self.count_at, self.gpu]
        # Up to a fifth too little beside the GPUs is tight, less does not fit.
        least = (self.beside / wants).min(axis=0)
        found = np.minimum(found, (least >= 0.8).view(np.int8) + (least >= 1).view(np.int8))
        found[self.slices] = NO  # slices of a GPU cannot talk to each other
        floor = floor_gib(w)[0] if base.basis != "measured" else 0.0
        unsure = self.vram_gb < floor - 0.5
        if any(way.layout.tp > 2 for way in ways.values()):
            # Every layer waits for the slowest link: without NVLink only a trial tells.
            unsure = unsure | ((tp > 2) & ~self.nvlink)
        found[unsure & (found > TIGHT)] = TIGHT
        if all(way.timing is None for way in ways.values()):
            return found, None
        seconds = self._seconds(ways, "mid")
        if deadline:
            latest = self._seconds(ways, "slow")
            in_time = (seconds <= deadline).view(np.int8) + (latest <= deadline).view(np.int8)
            found = np.minimum(found, in_time)
        return found, seconds

    def _seconds(self, ways: dict[int, Option], which: str) -> Floats:
        """Time of a run on every offer; not a number where it is not known."""
        unknown = np.full(len(self.speeds.gpus), math.nan)
        times = [
            unknown if (way := ways.get(count)) is None or way.timing is None
            else getattr(way.timing, which) for count in self.counts
        ]  # fmt: skip
        found: Floats = np.concatenate(times).take(self.cell) / self.share
        return found

    def _speeds(self, ways: dict[int, Option]) -> Floats:
        """By number and GPU: how many times as many cores a quicker GPU has to be fed by."""
        speeds = np.ones((len(self.counts), len(self.speeds.gpus)))
        for count, way in ways.items():
            if way.timing is not None and way.timing.speed is not None:
                speeds[self.counts.index(count)] = np.maximum(way.timing.speed, 1.0)
        return speeds

    def alike(self, offer: Offer) -> list[Offer]:
        """Offers of the same machine: GPU, number, slice and region."""
        if not self._alike:
            for one in self.offers:
                self._alike.setdefault(_machine(one), []).append(one)
        return self._alike[_machine(offer)]

    def take_places(self) -> dict[str, tuple[Any, Any]]:
        """What was kept for :meth:`places`, handed over."""
        taken, self._places = self._places, {}
        return taken

    def give_places(self, places: dict[str, tuple[Any, Any]]) -> None:
        """Take over what another process has kept."""
        self._places |= places

    def places(self, decision: Decision) -> tuple[Any, Any]:
        """(status, hours of a month) of a decided workload on every offer."""
        return self._places[decision.workload.id]

    def _other_limits(self, w: Workload, status: Ints) -> Ints:
        if not w.flag("restartable"):
            status = np.where(self.spot, NO, status)
        if w.has("data_residency"):
            place = w.text("data_residency")
            stated = self.regions != ""
            there = np.array([inside(place, region) for region in self.regions])
            unsure = np.where(stated, status, np.minimum(status, TIGHT))
            status = np.where(stated & ~there, NO, unsure)
        return status

    def _hours(self, w: Workload, seconds: Floats) -> Floats:
        """Hours of use in a month; a service without runs is always on."""
        if w.has("runs_per_month") and not np.isnan(seconds).all():
            return np.minimum(seconds / 3600 * w.number("runs_per_month"), 1e6)
        if w.has("gpu_hours_week"):
            month = w.number("gpu_hours_week") * 52 / 12 / self.devices / self.share
            ratios = relative(w, self.speeds)
            if ratios is not None:
                month = month * ratios[1][self.gpu]
            in_month: Floats = np.minimum(month, MONTH_HOURS)
            return in_month
        if w.kind == "infer" and w.has("duty"):
            return np.full(len(seconds), MONTH_HOURS * w.number("duty") / 100)
        return np.full(len(seconds), MONTH_HOURS)

    def _cost(self, hours: Floats) -> Floats:
        cost: Floats = self.setup + np.where(self.hourly, self.price * hours, self.price)
        return cost

    def _order(self, status: Ints, cost: Floats, kept: int) -> Any:
        usable = np.flatnonzero(status > NO)
        unpriced = np.isnan(cost[usable])
        # Costs within 5 % of the least are as good as equal: the smaller machine is the better one.
        best = status[usable] == status[usable].max(initial=NO)
        least = np.min(cost[usable], initial=math.inf, where=best & ~unpriced)
        near = best & (cost[usable] <= NEAR * least)
        if np.count_nonzero(near) >= kept:  # they come first, whatever the others are
            usable, unpriced, near = usable[near], unpriced[near], near[near]
        size = self.size[usable]
        keys = (
            cost[usable],
            np.where(near | unpriced, size, 0.0),
            np.where(near, 0.0, cost[usable]),
            ~near,
            unpriced,
            -status[usable],
        )
        return usable[np.lexsort(keys)[:kept]]

    def _candidate(
        self, w: Workload, i: int, status: int,
        options: list[dict[int, Option]], which: Ints,
        hours: Floats, cost: Floats,
    ) -> Candidate:  # fmt: skip
        offer = self.offers[i]
        speed = 1.0
        layout, need, timing, wants = options[which[i]][offer.devices]
        if timing is not None and timing.speed is not None:
            speed = float(timing.speed[self.gpu[i]])
            wants = host(w, offer.devices, need, speed)
        known = timing is not None
        times = (0.0, 0.0, 0.0)
        if timing is not None:
            at = self.gpu[i]
            quick, mid, slow = (float(t[at]) for t in (timing.quick, timing.mid, timing.slow))
            times = (quick / offer.share, mid / offer.share, slow / offer.share)
        money = None if math.isnan(cost[i]) else float(cost[i])
        run = None
        if known and money is not None and offer.period == "hour":
            run = float(self.price[i]) * times[1] / 3600
        elif money is not None and w.number("runs_per_month") and offer.period == "month":
            run = money / w.number("runs_per_month")
        return Candidate(
            offer=offer,
            servers=1,
            status=status,
            layout=layout,
            need=need,
            host=wants,
            seconds=times if known else None,
            month_hours=float(hours[i]),
            month_cost=money,
            run_cost=run,
            speed=speed,
        )


def _machine(offer: Offer) -> tuple[object, ...]:
    return (offer.gpu.name, offer.gpus, offer.mig, offer.region)


def _nothing_known(w: Workload) -> str:
    needs = {
        "render": "geometry and textures",
        "sim": "cells (and bytes_per_cell)",
        "etl": "peak_vram",
        "cnn": f"{'' if w.has('params') else 'params and '}activations_m (11.1 for ResNet-50), "
        "or two measured batch sizes",
        "llm": "params, or config",
        "diffusion": "params",
    }
    want = needs.get(w.family, "family and its columns, or two measured batch sizes")
    return f"nothing says how much GPU memory it needs: give peak_vram (measured), or {want}"
