"""What a plan's servers become in a stack file. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gpuferry.audit.choose.plan import Plan
from gpuferry.audit.choose.servers import Server
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


def wishes(plan: Plan, provider: str, *, rehearsal: bool) -> list[Wish]:
    """The servers of a plan as entries of a stack file.

    Raises:
        SpecError: nothing was placed, or the local provider cannot simulate a GPU.
    """
    if not plan.servers:
        raise SpecError("apply: no workload got a server; `./ferry audit plan` says why.")
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
    values: dict[str, Any] = {
        **(REHEARSAL if rehearsal else sizes),
        "workload": kinds.pop() if len(kinds) == 1 else "general",
        "gpu": {
            "model": _model(offer.gpu.name, offer.gpu.aliases, provider),
            "count": offer.devices,
        },
    }
    return Wish(name, values, tuple(d.workload.id for d in server.workloads))


def _model(name: str, aliases: tuple[str, ...], provider: str) -> str:
    """The catalogue's name; the local provider wants the name of its simulated model."""
    if provider != "local":
        return name
    for known in (name, *aliases):
        try:
            return profiles.find(known).model
        except SpecError:
            continue
    raise SpecError(
        f"apply: the provider local cannot simulate {name!r}; accepted: "
        f"{', '.join(profiles.profiles())}. Use offers with these for a rehearsal, or a stack "
        "file with another provider."
    )


def wants_bucket(plan: Plan) -> bool:
    """Whether data sets are large enough for an object store (they go through it, not by copy)."""
    total = sum(d.workload.number("dataset") for d in plan.decisions)
    return total > BUCKET_BYTES
