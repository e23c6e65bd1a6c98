"""Under which names a plan's servers stand in a stack file that has servers already. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuferry.audit.apply.wishes import Wish


@dataclass(frozen=True)
class Written:
    """An entry that the audit wrote before: its GPUs, and the workloads it was for."""

    gpu: Any
    workloads: frozenset[str]


def continued(
    wishes: list[Wish], written: Mapping[str, Written], foreign: frozenset[str]
) -> tuple[list[Wish], list[str]]:
    """The wishes under the names to be used, and the written entries that no wish goes on with.

    A plan numbers its servers by cost, so a new workload would move every name by one, and each
    server would be made again as its neighbour. A wish therefore goes on with the entry of the same
    GPUs that shares most workloads with it; what is left takes its own name or a free one.
    `foreign` are names of entries that a person wrote.
    """
    names: dict[int, str] = {}

    def likeness(index: int, name: str) -> tuple[int, bool]:
        shared = len(written[name].workloads & set(wishes[index].ids))
        return shared, name == wishes[index].name

    pairs = sorted(
        ((*likeness(i, name), i, name) for i, wish in enumerate(wishes)
         for name, entry in written.items() if entry.gpu == wish.values["gpu"]),
        key=lambda pair: (-pair[0], not pair[1], pair[2], pair[3]),
    )  # fmt: skip
    for _, _, index, name in pairs:
        if index not in names and name not in names.values():
            names[index] = name
    for index, wish in enumerate(wishes):
        if index in names:
            continue
        used = {*names.values(), *(w.name for i, w in enumerate(wishes) if i not in names)}
        name = wish.name
        if name in names.values():
            name = _free(wish.name, {*used, *written, *foreign})
        names[index] = name
    renamed = [replace(wish, name=names[i]) for i, wish in enumerate(wishes)]
    return renamed, [name for name in written if name not in names.values()]


def _free(name: str, taken: set[str]) -> str:
    stem = re.sub(r"-\d+$", "", name)
    return next(f"{stem}-{n}" for n in range(1, len(taken) + 2) if f"{stem}-{n}" not in taken)
