"""Readings that several check files share."""

import pytest

from gpuferry.checking import frozen, lynis, scan, ssh_audit
from gpuferry.checking.ahead import Ahead
from gpuferry.checking.container import run_container
from gpuferry.checking.expectations import ExpectedCuda
from gpuferry.checking.exposure import global_ipv6, look
from gpuferry.checking.gpu.judgement import conclude
from gpuferry.checking.gpu.survey import take
from gpuferry.checking.gpu_container import list_gpus
from gpuferry.checking.leaks.judge import look as look_for_leaks
from gpuferry.checking.sockets import reachable_listeners

_AHEAD = (
    "firewall_readings", "outside", "survey", "containers", "container_run", "stores",
    "freeze_readings", "updates_readings", "audit", "scanned", "lynis_report", "leaks",
)  # fmt: skip


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
def _firewall_readings_ahead(node):
    return Ahead(
        lambda: node.read(
            table="nft -j list table inet gpuferry",
            sockets="ss -Hlntu",
            unit="systemctl show gpuferry-firewall.service -p ActiveState -p UnitFileState",
            addresses="ip -j -6 address show scope global",
            client="echo $SSH_CONNECTION",
        )
    )


@pytest.fixture(scope="session")
def _outside_ahead(_firewall_readings_ahead, expectations, target):
    # Silence takes its whole deadline, so it is waited for while other checks run.
    def read():
        told = _firewall_readings_ahead.wait()
        addresses = [target.address, *global_ipv6(told["addresses"].text)[:1]]
        listeners = reachable_listeners(told["sockets"].output)
        return look(expectations, addresses, listeners, told["client"].text.split(" ")[0])

    return Ahead(read)


@pytest.fixture(scope="session")
def _container_run_ahead(node):
    return Ahead(lambda: run_container(node))


@pytest.fixture(scope="session")
def _stores_ahead(node, expectations):
    return Ahead(lambda: use_stores(node, expectations.object_stores))


@pytest.fixture(scope="session")
def _updates_readings_ahead(node):
    program = "/usr/local/lib/gpuferry/updates/main.py"
    timers = "apt-daily.timer apt-daily-upgrade.timer gpuferry-updates.timer"
    return Ahead(
        lambda: node.read(
            60,
            config="apt-config dump",
            timers=f"systemctl is-enabled {timers}",
            # The timer's first run may be yet to come.
            state=f"cat /var/lib/gpuferry/updates.json 2>/dev/null || python3 -B {program} --print",
        )
    )


@pytest.fixture(scope="session")
def _audit_ahead(node, target, ssh_config):
    def read():
        told = node.read(system=". /etc/os-release; echo $ID $VERSION_ID")["system"].text.split()
        name = ssh_audit.policy(ssh_audit.available(), *told)
        return name, ssh_audit.audit(target, ssh_config, name) if name else None

    return Ahead(read)


@pytest.fixture(scope="session")
def _scanned_ahead(node, target):
    """Scans and the chains of others; a text says why there is none."""

    def read():
        told = node.read(
            client="echo $SSH_CONNECTION",
            chains="nft -j list chains",
            addresses="ip -j -6 address show scope global",
        )
        more = [a for a in global_ipv6(told["addresses"].text)[:1] if scan.reachable(a)]
        try:
            source = told["client"].text.split(" ")[0]
            return scan.scan_all([target.address, *more], source), told["chains"].text
        except scan.CannotScan as reason:
            return str(reason)

    return Ahead(read)


@pytest.fixture(scope="session")
def _lynis_report_ahead(node, expectations):
    def read():
        if not lynis.here():
            return "Lynis is not installed here; install it: apt-get install lynis"
        told = node.read(system=". /etc/os-release; echo $ID-$VERSION_ID")["system"].text
        return told, expectations.kind, lynis.audit(node)

    return Ahead(read)


@pytest.fixture(scope="session")
def _leaks_ahead(node):
    return Ahead(lambda: look_for_leaks(node))


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
def container_run(_container_run_ahead):
    """A container that ran."""
    return _container_run_ahead.wait()


@pytest.fixture(scope="session")
def stores(_stores_ahead):
    """What using every object store gave: its name and either a word or the trouble."""
    return _stores_ahead.wait()


@pytest.fixture(scope="session")
def freeze_readings(_freeze_readings_ahead):
    """What apt and dpkg say about the frozen set."""
    return _freeze_readings_ahead.wait()


@pytest.fixture(scope="session")
def firewall_readings(_firewall_readings_ahead):
    """The rules in the kernel, what listens, and where this controller comes from."""
    return _firewall_readings_ahead.wait()


@pytest.fixture(scope="session")
def outside(_outside_ahead):
    """What a few connections from here showed."""
    return _outside_ahead.wait()


@pytest.fixture(scope="session")
def updates_readings(_updates_readings_ahead):
    """What apt, systemd and the server's own record say about updates."""
    return _updates_readings_ahead.wait()


@pytest.fixture(scope="session")
def audit(_audit_ahead):
    """The policy's name with ssh-audit's exit code and report."""
    return _audit_ahead.wait()


@pytest.fixture(scope="session")
def scanned(_scanned_ahead):
    """What nmap saw."""
    return _scanned_ahead.wait()


@pytest.fixture(scope="session")
def lynis_report(_lynis_report_ahead):
    """System, kind and what Lynis reports."""
    return _lynis_report_ahead.wait()


@pytest.fixture(scope="session")
def leaks(_leaks_ahead):
    """What the survey for readable secrets found."""
    return _leaks_ahead.wait()


@pytest.fixture
def answer(survey, verdict):
    """Where a judgement about GPUs becomes the verdict."""
    return lambda judgement: verdict.take(conclude(survey, judgement))
