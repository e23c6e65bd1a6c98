"""What a person should know about a choice before paying for it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuferry.audit.catalogue.match import lookup
from gpuferry.audit.choose.decision import TIGHT, Candidate, Decision
from gpuferry.audit.choose.servers import Server
from gpuferry.audit.estimate import work
from gpuferry.audit.estimate.need import floor_gib
from gpuferry.audit.read.units import show_duration, show_size
from gpuferry.audit.read.workload import Workload

# Who may be away for less than this needs a spare: a rented server takes longer to be replaced.
SPARE_SECONDS = 900


def of(decision: Decision) -> list[str]:
    """Sentences about the chosen offer; empty without one."""
    chosen, w = decision.chosen, decision.workload
    if chosen is None:
        return []
    return [
        *chosen.reasons,
        *_memory(w, decision, chosen),
        *_time(w, chosen),
        *_host(chosen),
        *_place(w, chosen),
        *_transfer(w),
        *_price(w, chosen),
        *_growth(w, decision),
    ]


def moved(decision: Decision, server: Server) -> list[str]:
    """That a workload goes onto another machine than it would have alone."""
    chosen = decision.chosen
    if chosen is None or chosen.offer.name == server.offer.name:
        return []
    own = f"{chosen.offer.name}, which it would have alone"
    return [f"shares {server.name} ({server.offer.name}) instead of {own}: at most 10 % more"]


def _memory(w: Workload, decision: Decision, chosen: Candidate) -> Iterator[str]:
    gpu = chosen.offer.gpu
    if chosen.layout.changed:
        yield f"assumes {chosen.layout.changed}: the job has to be changed for it"
    if chosen.layout.tp > 2 and not gpu.nvlink:
        yield f"tensor parallel over {gpu.interconnect}: try it before you rent more"
    floor, said = floor_gib(w)
    if decision.need and decision.need.basis != "measured" and gpu.vram_gb < floor - 0.5:
        yield f"below the floor: {said}; measure a run first"


def _time(w: Workload, chosen: Candidate) -> Iterator[str]:
    today = any(w.has(name) for name in ("run_time_now", "samples_per_s_now", "gpu_hours_week",
                                         "seconds_per_frame_now"))  # fmt: skip
    match = lookup(w.text("source_gpu"))
    if today and not match.candidates:
        why = f"{w.text('source_gpu')!r} {match.why}" if w.has("source_gpu") else "is not given"
        yield f"source_gpu {why}: today's time is taken for every GPU, quick or slow"
    elif today and match.gpu is None:
        which = f"source_gpu {w.text('source_gpu')!r} {match.why} ({match.accepted})"
        yield f"{which}: the range of time covers all of them"
    known = chosen.seconds or w.has("gpu_hours_week") or chosen.offer.period == "month"
    if w.kind != "infer" and not known:
        yield f"how long it runs is not known, so a whole month is counted: give {_work_columns(w)}"
    elif (
        w.kind != "infer"
        and chosen.offer.period == "hour"
        and not (w.has("runs_per_month") or w.has("gpu_hours_week"))
    ):
        yield "runs_per_month is not given, so a whole month is counted"
    deadline = w.number("deadline")
    now = _seconds_now(w)
    if now and chosen.seconds and not deadline and chosen.seconds[1] > 1.2 * now:
        slower = f"{show_duration(chosen.seconds[1])} instead of {show_duration(now)}"
        yield f"cheapest, and slower than today: {slower}; give a deadline if that is too long"
    if deadline and chosen.seconds is None:
        yield "deadline cannot be judged: nothing says how much work a run is"
    late = bool(deadline and chosen.seconds and chosen.seconds[2] > deadline)
    if chosen.status == TIGHT and late:
        yield "the deadline holds at the likely speed, not at the slow end"


def _seconds_now(w: Workload) -> float:
    """How long a run takes today by the clock, 0 where nothing says so."""
    if w.has("run_time_now"):
        return w.number("run_time_now")
    if w.number("samples_per_s_now"):
        return w.number("samples") / w.number("samples_per_s_now")
    each = w.number("seconds_per_frame_now") / w.number("gpus_now", 1)
    return w.number("samples") * each


def _work_columns(w: Workload) -> str:
    """The columns that would tell the length of a run, without those that are there."""
    ways: list[tuple[str, ...]] = [("run_time_now",)]
    if w.family == "llm":
        ways.append(("tokens",))
    elif w.kind == "render":
        ways.append(("samples", "seconds_per_frame_now"))
    elif w.training:
        ways.append(("samples", "samples_per_s_now"))
        ways.append(("samples", "flops_per_sample"))
    missing = [" and ".join(name for name in way if not w.has(name)) for way in ways]
    return ", or ".join(missing)


def _host(chosen: Candidate) -> Iterator[str]:
    offer = chosen.offer
    stated = (("cores", offer.cpu_cores), ("memory", offer.memory), ("disk", offer.disk))
    missing = [name for name, value in stated if not value]
    if missing and offer.provider:
        yield f"the offer does not state {', '.join(missing)}: ask for the figures below"
    total = offer.devices * offer.visible_bytes
    if offer.memory and offer.memory < total * 0.98:
        text = f"{show_size(offer.memory)} host memory for {show_size(total)} GPU memory"
        yield f"{text}: F10 wants as much"


def _place(w: Workload, chosen: Candidate) -> Iterator[str]:
    if w.has("data_residency") and not chosen.offer.region:
        yield f"data has to stay in {w.text('data_residency')}; the offer names no region"
    if w.flag("licence_bound_to_host"):
        yield "its licence is tied to the machine: have it moved before the cutover"
    if w.has("tolerable_downtime") and w.number("tolerable_downtime") < SPARE_SECONDS:
        yield "may be away for minutes only: one server is not enough, plan a spare"


def _transfer(w: Workload) -> Iterator[str]:
    """F12: how long the data takes, and whether its files should be packed."""
    if not w.has("source_link"):
        return
    size, files = w.number("dataset"), w.number("n_files")
    link = w.number("source_link")
    plain, packed = (work.transfer_seconds(size, link, n) for n in (files, 0))
    text = f"F12: moving {show_size(size)} takes {show_duration(packed)}"
    if plain > 2 * packed:
        text += f" packed, {show_duration(plain)} as {files:,.0f} files"
    yield text


def _price(w: Workload, chosen: Candidate) -> Iterator[str]:
    offer = chosen.offer
    if offer.kind == "spot":
        asked = "" if w.has("checkpoint_every") else "; checkpoint_every is not given"
        yield f"spot: can be taken away at any time{asked}"
    if offer.price_note and offer.provider:
        yield f"{offer.id}: {offer.price_note}"


def _growth(w: Workload, decision: Decision) -> Iterator[str]:
    grows, first = w.number("growth_12m"), next(iter(decision.limits), None)
    if grows and first and first.growth < grows:
        yield f"expected growth of {grows:g} % a year uses up {first.name} first"
