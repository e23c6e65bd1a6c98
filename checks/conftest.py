"""Readings that several check files share."""

import pytest

from gpuferry.checking.expectations import ExpectedCuda
from gpuferry.checking.gpu.judgement import conclude
from gpuferry.checking.gpu.survey import take
from gpuferry.checking.gpu_container import list_gpus


@pytest.fixture(scope="session")
def survey(node, expectations):
    """One look at the GPUs, for all checks."""
    return take(node, expectations.gpu.cuda if expectations.gpu else ExpectedCuda())


@pytest.fixture(scope="session")
def containers(node, survey):
    """GPUs that containers list; none are started where they could only hang."""
    return {} if survey.smi.state == "hung" else list_gpus(node)


@pytest.fixture
def answer(survey, verdict):
    """Where a judgement about GPUs becomes the verdict."""
    return lambda judgement: verdict.take(conclude(survey, judgement))
