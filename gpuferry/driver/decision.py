"""The form of a decision: what would be done to one server's driver, or why nothing is."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from gpuferry.driver.packages import Package
from gpuferry.driver.refusal import Refusal

Action = Literal["install", "leave", "load", "reboot", "user_space", "none", "refuse"]


class Plan(BaseModel):
    """What would be done.

    `action`: install packages; leave a driver that works; load an installed module; reboot only;
    user_space: libraries and tools without a module (containers, simulated GPUs); none: no GPU;
    refuse. `packages` is the exact set for apt, CUDA included; `cuda` is CUDA's part of it;
    `simulated_by_apt` tells whether apt was asked about exactly this set.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    action: Action
    source: Literal["distribution", "nvidia", "present", "host", "simulated", ""] = ""
    branch: int = 0
    version: str = ""
    flavour: Literal["open", "proprietary", ""] = ""
    packages: list[Package] = []
    cuda: list[Package] = []
    adds: list[str] = []
    removes: list[str] = []
    fabric_manager: bool = False
    persistence: bool = False
    nouveau_off: bool = False
    reboot: bool = False
    disturbs: list[str] = []
    simulated_by_apt: bool = False
    reasons: list[str] = []
    notes: list[str] = []
    refusal: Refusal | None = None
