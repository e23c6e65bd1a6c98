"""Readings that several check files share."""

import threading

import pytest

from gpuferry.checking.expectations import ExpectedCuda
from gpuferry.checking.gpu.judgement import conclude
from gpuferry.checking.gpu.survey import take
from gpuferry.checking.gpu_container import list_gpus


class _Ahead:
    """A reading that is under way while other checks run; a daemon, so that no end waits for it."""

    def __init__(self, read):
        self._read, self._answer, self._error = read, None, None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self._answer = self._read()
        except Exception as error:
            self._error = error

    def wait(self):
        self._thread.join()
        if self._error:
            raise self._error
        return self._answer


@pytest.fixture(scope="session")
def _survey_ahead(node, expectations):
    return _Ahead(lambda: take(node, expectations.gpu.cuda if expectations.gpu else ExpectedCuda()))


@pytest.fixture(scope="session")
def _containers_ahead(node, _survey_ahead):
    def read():
        # None are started where they could only hang.
        return {} if _survey_ahead.wait().smi.state == "hung" else list_gpus(node)

    return _Ahead(read)


@pytest.fixture(scope="session", autouse=True)
def _look_ahead(request):
    """Start the slow readings at once where a selected check needs them."""
    for name in ("survey", "containers"):
        if any(name in item.fixturenames for item in request.session.items):
            request.getfixturevalue(f"_{name}_ahead")


@pytest.fixture(scope="session")
def survey(_survey_ahead):
    """One look at the GPUs, for all checks."""
    return _survey_ahead.wait()


@pytest.fixture(scope="session")
def containers(_containers_ahead):
    """GPUs that containers list."""
    return _containers_ahead.wait()


@pytest.fixture
def answer(survey, verdict):
    """Where a judgement about GPUs becomes the verdict."""
    return lambda judgement: verdict.take(conclude(survey, judgement))
