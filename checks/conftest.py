"""Readings that several check files share."""

import pytest

from gpuferry.checking import frozen
from gpuferry.checking.ahead import Ahead
from gpuferry.checking.expectations import ExpectedCuda
from gpuferry.checking.gpu.judgement import conclude
from gpuferry.checking.gpu.survey import take
from gpuferry.checking.gpu_container import list_gpus


@pytest.fixture(scope="session")
def _survey_ahead(node, expectations):
    return Ahead(lambda: take(node, expectations.gpu.cuda if expectations.gpu else ExpectedCuda()))


@pytest.fixture(scope="session")
def _containers_ahead(node, _survey_ahead):
    def read():
        # None are started where they could only hang.
        return {} if _survey_ahead.wait().smi.state == "hung" else list_gpus(node)

    return Ahead(read)


@pytest.fixture(scope="session")
def _freeze_readings_ahead(node):
    # apt works out a whole upgrade: seconds of a slow server.
    return Ahead(
        lambda: node.read(
            60,
            record="cat /var/lib/gpuferry/frozen.json",
            installed="dpkg-query -W -f='${Package} ${Version} ${db:Status-Status}\\n'",
            holds="apt-mark showhold",
            config="apt-config dump Unattended-Upgrade::Package-Blacklist",
            upgrade="apt-get -s -q -o Debug::NoLocking=1 dist-upgrade",
            marker="cat /var/lib/gpuferry/upgrade.json 2>/dev/null || true",
            own_config="cat /etc/apt/apt.conf.d/95gpuferry-freeze",
            preferences="cat /etc/apt/preferences.d/60-gpuferry-freeze",
            policy=frozen.POLICY,
            needrestart=frozen.NEEDRESTART,
        )
    )


@pytest.fixture(scope="session", autouse=True)
def _look_ahead(request):
    """Start the slow readings at once where a selected check needs them."""
    for name in ("survey", "containers", "freeze_readings"):
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


@pytest.fixture(scope="session")
def freeze_readings(_freeze_readings_ahead):
    """What apt and dpkg say about the frozen set."""
    return _freeze_readings_ahead.wait()


@pytest.fixture
def answer(survey, verdict):
    """Where a judgement about GPUs becomes the verdict."""
    return lambda judgement: verdict.take(conclude(survey, judgement))
