"""Readings that several check files share."""

import pytest

from gpuferry.checking import frozen
from gpuferry.checking.ahead import Ahead
from gpuferry.checking.container import run_container
from gpuferry.checking.expectations import ExpectedCuda
from gpuferry.checking.exposure import look_now
from gpuferry.checking.gpu.judgement import conclude
from gpuferry.checking.gpu.survey import take
from gpuferry.checking.gpu_container import list_gpus

_AHEAD = ("survey", "containers", "freeze_readings", "outside", "container_run", "stores")


def use_stores(node, stores):
    """Results and troubles, each with the store's name."""
    if not stores:
        return [], []
    # Takes half a second to load; most servers of most stacks never need it.
    from gpuferry.checking.object_store import StoreTrouble, round_trip

    done, problems = [], []
    for store in stores:
        try:
            done.append(f"{store.name}: {round_trip(node, store)}")
        except StoreTrouble as trouble:
            problems.append(f"{store.name}: {trouble}")
    return done, problems


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


@pytest.fixture(scope="session")
def _outside_ahead(node, expectations, target):
    # Ports that stay silent cost the whole time-out.
    return Ahead(lambda: look_now(node, expectations, target.address))


@pytest.fixture(scope="session")
def _container_run_ahead(node):
    return Ahead(lambda: run_container(node))


@pytest.fixture(scope="session")
def _stores_ahead(node, expectations):
    return Ahead(lambda: use_stores(node, expectations.object_stores))


@pytest.fixture(scope="session", autouse=True)
def _look_ahead(request):
    """Start the slow readings at once where a selected check needs them."""
    for name in _AHEAD:
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


@pytest.fixture(scope="session")
def outside(_outside_ahead):
    """What answers from here."""
    return _outside_ahead.wait()


@pytest.fixture(scope="session")
def container_run(_container_run_ahead):
    """A container that ran."""
    return _container_run_ahead.wait()


@pytest.fixture(scope="session")
def stores(_stores_ahead):
    """What using every object store gave: its name and either a word or the trouble."""
    return _stores_ahead.wait()


@pytest.fixture
def answer(survey, verdict):
    """Where a judgement about GPUs becomes the verdict."""
    return lambda judgement: verdict.take(conclude(survey, judgement))
