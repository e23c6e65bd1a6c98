"""GPU models that can be simulated: one YAML file each in `gpusim/profiles`."""

from __future__ import annotations

import functools
import re
from typing import Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from gpuferry.errors import SpecError
from gpuferry.paths import REPOSITORY
from gpuferry.simulation.readings import READINGS

PROFILES = REPOSITORY / "gpusim/profiles"

# Numbers of the NVML API reference.
ARCHITECTURES = {"volta": 5, "turing": 6, "ampere": 7, "ada": 8, "hopper": 9, "blackwell": 10}
BRANDS = {"tesla": 2, "geforce": 5, "rtx": 13, "nvidia": 14}
# Said by vendors or by product names, without telling models apart.
_EMPTY_WORDS = {"nvidia", "tesla", "geforce"}

PciId = Annotated[str, Field(pattern=r"^[0-9a-f]{4}$")]


class NvSwitches(BaseModel):
    """NVSwitches of a board that carries `with_gpus` GPUs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    device: PciId
    count: int
    with_gpus: int


class Profile(BaseModel):
    """One GPU model, in the units of :mod:`gpuferry.simulation.readings`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    aliases: list[str] = Field(default_factory=list)
    name: str
    architecture: str
    brand: Literal["tesla", "geforce", "rtx", "nvidia"]
    pci_device: PciId
    pci_subsystem: PciId
    pci_class: Literal["0300", "0302"]
    vbios: str
    part_number: str | None = None
    nvswitches: NvSwitches | None = None
    readings: dict[str, float]

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.architecture not in ARCHITECTURES:
            raise ValueError(f"architecture {self.architecture!r} is unknown")
        for name in self.readings:
            if name not in READINGS:
                raise ValueError(f"there is no reading {name!r}")
        return self


@functools.cache
def profiles() -> dict[str, Profile]:
    """All profiles by their model's name."""
    found = {}
    for path in sorted(PROFILES.glob("*.yaml")):
        profile = Profile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        found[profile.model] = profile
    return found


def _tokens(text: str) -> tuple[str, ...]:
    words = re.findall(r"[a-z0-9]+", text.casefold())
    return tuple(word for word in words if word not in _EMPTY_WORDS)


def find(model: str) -> Profile:
    """The profile of a model, named as in the stack file; whole words count: L40 is no L40S.

    Raises:
        SpecError: no profile is called so.
    """
    wanted = _tokens(model)
    for profile in profiles().values():
        if wanted in [_tokens(name) for name in (profile.model, profile.name, *profile.aliases)]:
            return profile
    accepted = ", ".join(profiles())
    raise SpecError(f"GPU model {model!r} cannot be simulated; accepted: {accepted}.")
