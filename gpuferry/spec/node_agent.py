"""What a stack declares about the node agent of its servers with GPUs."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from pydantic import AfterValidator, Field

from agent.detect.thresholds import MOST_SECONDS, Thresholds
from gpuferry.spec.strict import Strict

NAMES = sorted(field.name for field in dataclasses.fields(Thresholds))


def _known(thresholds: dict[str, float]) -> dict[str, float]:
    for name, value in thresholds.items():
        if name not in NAMES:
            raise ValueError(f"{name!r} is no threshold; accepted: {', '.join(NAMES)}")
        if value < 0:
            raise ValueError(f"{name} is {value}; accepted: 0 or more")
        if name.endswith("_seconds") and value > MOST_SECONDS:
            raise ValueError(f"{name} is {value:g}; accepted: 0 to {MOST_SECONDS:g}")
    return thresholds


class AgentSpec(Strict):
    """The node agent of servers with GPUs."""

    sample_seconds: float = Field(
        default=1.0, ge=0.25, le=2, description="between two looks at utilisation and power"
    )
    progress_files: list[Annotated[str, Field(pattern=r"^/")]] = Field(
        default_factory=list,
        description="globs of files whose change means that a job advances",
    )
    thresholds: Annotated[dict[str, float], AfterValidator(_known)] = Field(
        default_factory=dict,
        description="others than those of agent/detect/thresholds.py, such as {hung_seconds: 600}",
    )
