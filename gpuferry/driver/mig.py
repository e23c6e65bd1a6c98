"""MIG layouts: which parts a GPU can be cut into, and whether the declared ones fit. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from pydantic import BaseModel, ConfigDict

from gpuferry.driver.rules import table
from gpuferry.shared import shared


class MigProfile(BaseModel):
    """One kind of part; `starts` and `size` count memory slices, `most` is how many fit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    slot: int
    id: int
    slices: int
    most: int
    starts: tuple[int, ...]
    size: int


@cache
def profiles_of(device: str) -> Mapping[str, MigProfile]:
    """Profiles of a PCI device id such as `20b2`, by name; empty: the GPU has no MIG."""
    rules = table("mig")
    for row in rules["gpus"]:
        if device in row["ids"]:
            geometry = rules["geometries"][row["geometry"]]
            return {
                name: MigProfile.model_validate(geometry[kind])
                for name, kind in row["profiles"].items()
            }
    return {}


def problem(device: str, parts: Sequence[str]) -> str:
    """Why a GPU cannot be cut so, in words; an empty string when it can."""
    profiles = profiles_of(device)
    if not parts:
        return ""
    if not profiles:
        return f"a GPU with PCI id 10de:{device} cannot be cut into MIG instances"
    for name in parts:
        if name not in profiles:
            return f"there is no MIG profile {name!r}; accepted: {', '.join(profiles)}"
    possible = {name: profile.model_dump() for name, profile in profiles.items()}
    if shared("mig_layout").place(parts, possible) is None:
        return f"{' + '.join(parts)} do not fit on one GPU together"
    return ""
