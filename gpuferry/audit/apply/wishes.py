"""What a plan's servers become in a stack file. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gpuferry.audit.choose.plan import Plan
from gpuferry.audit.choose.servers import Server
from gpuferry.audit.offers.offer import Offer
from gpuferry.audit.read.units import GIB
from gpuferry.errors import SpecError
from gpuferry.simulation import profiles

_WORKLOADS = {
    "train": "training", "finetune": "training", "infer": "training", "render": "rendering",
    "sim": "science", "etl": "general",
}  # fmt: skip
# What a rehearsal on this machine gets instead of the real sizes; the GPUs stay, simulated.
REHEARSAL = {"cpus": 2, "memory_gib": 2, "data_disk_gib": 4}
BUCKET_BYTES = 100e9


@dataclass(frozen=True)
class Wish:
    """One server entry: the keys that the audit decides about."""

    name: str
    values: dict[str, Any]
    ids: tuple[str, ...]
    note: str = ""


def wishes(plan: Plan, provider: str, *, rehearsal: bool) -> list[Wish]:
    """The servers of a plan as entries of a stack file.

    Raises:
        SpecError: nothing was placed, or the local provider cannot simulate a GPU.
    """
    if not plan.servers:
        raise SpecError("apply: no workload got a server; `./ferry audit plan TABLE` says why.")
    found = []
    for server in plan.servers:
        for number in range(1, server.count + 1):
            name = server.name if server.count == 1 else f"{server.name}-{number}"
            found.append(_wish(name, server, provider, rehearsal=rehearsal))
    return found


def _wish(name: str, server: Server, provider: str, *, rehearsal: bool) -> Wish:
    offer = server.offer
    kinds = {_WORKLOADS[d.workload.kind] for d in server.workloads}
    sizes: dict[str, Any] = {
        "cpus": int(offer.cpu_cores or math.ceil(server.cores)),
        "memory_gib": int((offer.memory or server.memory) // GIB or 1),
        "data_disk_gib": math.ceil(server.disk / GIB),
    }
    if not offer.memory:
        sizes["memory_gib"] = math.ceil(server.memory / GIB)
    model, note = _model(offer, provider, rehearsal=rehearsal)
    values: dict[str, Any] = {
        **(REHEARSAL if rehearsal else sizes),
        "workload": kinds.pop() if len(kinds) == 1 else "general",
        "gpu": {
            "model": model,
            "count": offer.devices,
        },
    }
    ids = tuple(d.workload.id for d in server.workloads)
    return Wish(name, values, ids, f"{name}: {note}" if note else "")


def _model(offer: Offer, provider: str, *, rehearsal: bool) -> tuple[str, str]:
    """(the name to be written, what is to be said about it).

    The local provider wants the name of a simulated model; a rehearsal takes the smallest one with
    as much memory where there is none of the GPU itself.
    """
    gpu = offer.gpu
    if provider != "local":
        return gpu.name, ""
    for known in (gpu.name, *gpu.aliases):
        try:
            return profiles.find(known).model, ""
        except SpecError:
            continue
    if not rehearsal:
        raise SpecError(
            f"apply: the provider local cannot simulate {gpu.name!r}; accepted: "
            f"{', '.join(profiles.profiles())}. With --rehearsal another one stands in for it; for "
            "rented servers the stack file needs another provider."
        )
    sizes = {
        model: profile.readings["memory_total"] * 2**20
        for model, profile in profiles.profiles().items()
    }
    large = [m for m, size in sizes.items() if size >= 0.95 * gpu.visible_bytes] or [*sizes]
    stand_in = min(large, key=lambda m: (abs(sizes[m] - gpu.visible_bytes), m))
    return stand_in, f"{gpu.name} cannot be simulated here, {stand_in} stands in for it"


def wants_bucket(plan: Plan) -> bool:
    """Whether data sets are large enough for an object store (they go through it, not by copy)."""
    total = sum(d.workload.number("dataset") for d in plan.decisions)
    return total > BUCKET_BYTES
