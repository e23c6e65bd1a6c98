"""The role nvidia_cuda: the driver runs the declared CUDA versions, and they are there."""

import pytest

from gpuferry.checking.expectations import ExpectedCuda
from gpuferry.checking.gpu.cuda import driver, installed
from gpuferry.checking.mark import check

NEWER = "see which driver runs it: ./ferry plan driver {server}"


@pytest.fixture
def cuda(expectations):
    return expectations.gpu.cuda if expectations.gpu else ExpectedCuda()


@check("nvidia_cuda.driver", next_step=NEWER, deadline_seconds=45)
def test_driver(survey, cuda, answer):
    """The driver runs every declared CUDA version."""
    answer(driver(survey, cuda))


@check(
    "nvidia_cuda.runtime", deadline_seconds=45, applies=lambda e: bool(e.gpu and e.gpu.cuda.runtime)
)
def test_runtime(survey, cuda, answer):
    """Every declared runtime library is there and tells its version."""
    answer(installed(survey, "runtime", cuda.runtime))


@check(
    "nvidia_cuda.toolkit", deadline_seconds=45, applies=lambda e: bool(e.gpu and e.gpu.cuda.toolkit)
)
def test_toolkit(survey, cuda, answer):
    """Every declared compiler is there and tells its version."""
    answer(installed(survey, "toolkit", cuda.toolkit))
