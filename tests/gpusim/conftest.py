"""Simulated GPUs on this machine, without any server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuferry.simulation import build
from tests.support import nvidia_smi
from tests.support.nvidia_smi import NvidiaSmi
from tests.support.simulated import Simulated


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
