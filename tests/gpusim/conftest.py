"""Simulated GPUs on this machine, without any server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuferry.simulation import build
from tests.support import nvidia_smi
from tests.support.agent import QUICK, RunningAgent
from tests.support.nvidia_smi import NvidiaSmi
from tests.support.simulated import Simulated, wait_until


@pytest.fixture(scope="session")
def built() -> Path:
    return build()


@pytest.fixture
def gpus(built: Path, tmp_path: Path) -> Iterator[Simulated]:
    simulated = Simulated(built, tmp_path)
    try:
        yield simulated
    finally:
        simulated.end()


@pytest.fixture(scope="session", params=list(nvidia_smi.SUITES))
def smi(request: pytest.FixtureRequest) -> NvidiaSmi:
    try:
        return nvidia_smi.fetch(request.param)
    except nvidia_smi.NotToBeHad as reason:
        pytest.skip(f"the real nvidia-smi of {request.param} cannot be had: {reason}")


@pytest.fixture
def start(gpus: Simulated) -> Callable[..., RunningAgent]:
    def starting(**config: Any) -> RunningAgent:
        agent = RunningAgent(gpus, **{**QUICK, **config})
        if config.get("nvml", True):
            wait_until("an answer of the driver", lambda: agent.value(
                "node_agent_driver", status="starting") is None, 20)  # fmt: skip
        return agent

    return starting
