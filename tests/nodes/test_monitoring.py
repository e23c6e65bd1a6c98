"""Monitoring on real servers with two simulated L4: faults go in, a real webhook is told."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpuferry.checking import run_checks
from gpuferry.errors import StepFailed
from gpuferry.monitoring import AGENT_PORT, alert_names
from gpuferry.operate import simulation
from gpuferry.paths import REPOSITORY
from gpuferry.simulation.assign import assign
from gpuferry.simulation.faults import Change, Request, clear, inject
from gpuferry.simulation.moment import Moment
from gpuferry.simulation.scenario import Scenario
from gpuferry.verdict import Verdict
from tests.support.alert_cases import promtool_files
from tests.support.node import Node, NodeMaker
from tests.support.simulated import wait_until
from tests.support.webhook import URL, Webhook, firing

ROLES = ("secrets", "agent", "monitoring")
TOKEN = "what-the-agents-are-asked-with"
SECRETS = [
    {"name": "gpuferry-scrape-token", "value": TOKEN, "uid": 0},
    {"name": "pager", "value": "a-pagers-token", "uid": 0},
]
MONITORED: dict[str, Any] = {
    "monitoring_enabled": True,
    "monitoring_server": "gpu-1",
    "monitoring_targets": [{"server": "gpu-1", "address": f"127.0.0.1:{AGENT_PORT}"}],
    "monitoring_receivers": {"webhook": {"url": URL}},
    "monitoring_dead_man": {"url": f"{URL}dead-man", "token_secret": "pager"},
    "monitoring_secrets": [{"name": "pager", "version": "1"}],
    "monitoring_scrape_token": "1",
    "agent_scrape_token": "1",
    "agent_expected_gpus": 2,
    "agent_mounts": ["/small"],
    "secrets_files": SECRETS,
}
# What lasts minutes as shipped, in seconds. The durations as shipped are judged by promtool.
QUICK = {
    **MONITORED,
    "monitoring_alerts": {
        # A busy machine may miss a scrape.
        n: {"for": "8s" if n == "AgentDown" else "1s", "keep_firing_for": "1s"}
        for n in alert_names()
    },
    "agent_thresholds": {
        "window_seconds": 10, "leaked_seconds": 10, "hung_seconds": 15, "warm_up_seconds": 10,
        "throttle_hardware_seconds": 10, "hot_seconds": 10, "xid_seconds": 25,
        # Others use this machine's disks and network, too.
        "moving_bytes_per_second": 1e12,
    },
}  # fmt: skip


def change(node: Node, *requests: Request) -> None:
    for request in requests:

        def decide(scenario: Scenario, moment: Moment, wanted: Request = request) -> Change:
            return inject(scenario, wanted, moment)

        simulation.change(node.session, node.server, decide)


def set_readings(node: Node, gpu: int, *assignments: str) -> None:
    simulation.change(
        node.session, node.server, lambda s, m: Change(assign(s, [gpu], list(assignments), m))
    )


def make_healthy(node: Node) -> None:
    node.run("systemctl stop 'work*'; rm -f /run/gpusim/kmsg /small/full")
    simulation.change(node.session, node.server, lambda s, m: Change(clear(s, m)))


def busy(node: Node, gpu: int, utilisation: int) -> None:
    node.run(
        f"systemd-run -q --collect --unit=work{gpu} /opt/gpusim/bin/gpusim busy "
        f"--gpu {gpu} --seconds 300 --util {utilisation}"
    )


def verdicts(node: Node) -> dict[str, Verdict]:
    expected = {
        "hostname": node.server.name, "user": node.server.user, "roles": ["monitoring"],
        "kind": "container", "gpu": {"model": "L4", "count": 2},
        "monitoring": {
            "targets": ["gpu-1"], "unwatched": {"cpu-1": "no gpu, so no agent"},
            "receivers": ["webhook"], "dead_man": True, "alerts": len(alert_names()),
        },
    }  # fmt: skip
    found = run_checks([node.server], {node.server.name: expected}, select=["monitoring"])
    return {v.id: v for v in found if v.id.startswith("monitoring.")}


def wait_for_all(hook: Webhook, status: str, wanted: set[tuple[str, str]], seconds: float) -> None:
    """Alerts by name and index of the GPU."""
    deadline = time.monotonic() + seconds
    while missing := wanted - {
        (t.labels["alertname"], t.labels.get("index", ""))
        for t in hook.told()
        if t.status == status
    }:
        if time.monotonic() > deadline:
            came = sorted({(t.labels["alertname"], t.status) for t in hook.told()})
            raise AssertionError(f"{seconds} s, and not {status}: {missing}; came: {came}")
        time.sleep(0.5)


def wait_for_silence(node: Node, seconds: float = 180) -> None:
    """Until nothing fires but what always does."""
    deadline = time.monotonic() + seconds
    while loud := firing(node) - {"Watchdog"}:
        assert time.monotonic() < deadline, f"{seconds} s, and still: {loud}"
        time.sleep(1)


@pytest.fixture(scope="module")
def node(image: str, new_node: NodeMaker) -> Node:
    node = new_node(image, name="gpu-1", gpu_model="L4", gpu_count=2)
    node.play("nvidia_driver", nvidia_driver_wish={"gpus": 2})
    node.run("mkdir /small; mount -t tmpfs -o size=20M small /small")
    return node


@pytest.fixture(scope="module")
def hook(node: Node) -> Webhook:
    return Webhook(node)


@pytest.fixture
def only_13(node: Node) -> None:
    """What does not depend on the version of Prometheus is seen on one."""
    assert node.args is not None
    if node.args.image != "debian-13":
        pytest.skip("seen on Debian 13")


@pytest.fixture
def faulty(node: Node) -> Iterator[Node]:
    yield node
    make_healthy(node)


def test_without_the_role_the_checks_fail(node: Node) -> None:
    assert {v.status for v in verdicts(node).values()} == {"fail"}


def test_what_this_alertmanager_cannot_read_from_a_file_is_refused_first(node: Node) -> None:
    telegram = {"telegram": {"chat_id": 1, "token_secret": "pager"}}
    assert node.args is not None
    if node.args.image == "debian-13":
        pytest.skip("Debian 13 can")
    with pytest.raises(StepFailed, match=r"0\.25 of Debian 12 cannot read Telegram's token"):
        node.play("monitoring", **{**MONITORED, "monitoring_receivers": telegram})
    node.run("test ! -e /etc/systemd/system/prometheus.service")


def test_it_changes_once(node: Node, hook: Webhook) -> None:
    assert node.play(*ROLES, check_only=True, **MONITORED).changed("gpu-1") > 0
    node.run("test ! -e /etc/gpuferry/monitoring")
    assert node.changed(*ROLES, **MONITORED) > 0
    assert node.changed(*ROLES, **MONITORED) == 0
    found = verdicts(node)
    assert {v.status for v in found.values()} == {"pass"}, found
    assert len(found) == 5
    assert found["monitoring.targets"].evidence == "cpu-1 is not watched: no gpu, so no agent"


def test_nobody_outside_hears_it_and_nobody_inside_reads_its_secrets(node: Node) -> None:
    for port in (9752, 9753, 9090, 9093, 9094):
        with pytest.raises(OSError, match=r"refused|timed out"):
            socket.create_connection((node.server.address, port), timeout=3)
    # The packages' own units would listen everywhere, now and after a boot.
    assert node.run("systemctl is-active prometheus prometheus-alertmanager || true").split() == [
        "inactive", "inactive",
    ]  # fmt: skip
    for unit in ("gpuferry-prometheus", "gpuferry-alertmanager"):
        said = node.run(f"systemd-analyze security --no-pager {unit}.service | tail -1")
        assert float(re.findall(r": (\d+\.\d+)", said)[0]) <= 2.0, said
    secrets = "|".join(str(s["value"]) for s in SECRETS)
    node.run(f"! grep -rE '{secrets}' /etc/gpuferry /etc/systemd /proc/[0-9]*/cmdline")
    node.run("! su -s /bin/sh nobody -c 'cat /run/gpuferry-*/*'")


def test_the_rules_do_what_they_say(node: Node) -> None:
    """Every case of tests/support/alert_cases.py, by this server's own promtool."""
    rules = "/etc/gpuferry/monitoring/rules.yml"
    for number, text in enumerate(promtool_files(rules)):
        node.run(f"cat > /run/cases{number}.yml <<'END'\n{text}\nEND")
    said = node.run(
        "promtool test rules /run/cases0.yml & first=$!; promtool test rules /run/cases1.yml; "
        "wait $first",
        timeout_seconds=300,
    )
    assert said.count("SUCCESS") == 2


@pytest.mark.usefixtures("only_13")
def test_prometheus_understands_what_the_dashboard_asks(node: Node) -> None:
    board = json.loads((REPOSITORY / "docs/grafana-dashboard.json").read_text())
    asked = [t["expr"].replace("$server", ".*") for p in board["panels"] for t in p["targets"]]
    program = (
        "python3 -I - <<'END'\nimport json, urllib.parse, urllib.request\n"
        f"for query in json.loads({json.dumps(json.dumps(asked))}):\n"
        "    data = urllib.parse.urlencode({'query': query}).encode()\n"
        "    url = 'http://127.0.0.1:9752/api/v1/query'\n"
        "    answer = json.load(urllib.request.urlopen(url, data))\n"
        "    print(answer['status'], len(answer['data']['result']))\nEND"
    )
    answers = node.run(program).splitlines()
    assert len(answers) == len(asked)
    assert all(answer.startswith("success") for answer in answers), answers
    # Two GPUs, one each of what they do, use, draw, hold and how warm they are; some are read every
    # five seconds only.
    wait_until("all readings", lambda: node.run(program).splitlines()[1:6] == ["success 2"] * 5, 60)


def test_lost_gpus_and_hung_drivers_are_told_within_15_seconds(faulty: Node, hook: Webhook) -> None:
    """As shipped."""
    since = hook.from_now()
    change(faulty, Request("lost", gpu=1))
    lost = hook.wait("GpuFault", index="1")
    assert time.monotonic() - since < 15 + 3, "asking the node takes a moment, too"
    assert lost.at - hook.since <= 15
    assert "79" in lost.annotations["evidence"]
    hook.from_now()
    change(faulty, Request("hang", function="nvmlDeviceGetPowerUsage"))
    hung = hook.wait("GpuDriverHung")
    assert hung.at - hook.since <= 15
    # Its GPUs have nothing to say beside that.
    assert {t.labels["alertname"] for t in hook.told()} - {"Watchdog"} == {"GpuDriverHung"}


def test_the_dead_mans_switch_has_a_way_of_its_own(node: Node, hook: Webhook) -> None:
    hook.since = 0
    wait_until("the Watchdog", lambda: hook.find("Watchdog"), 60)
    assert {(t.path, t.authorization) for t in hook.find("Watchdog")} == {
        ("/dead-man", "Bearer a-pagers-token")
    }
    assert all(t.path == "/" for t in hook.told() if t.labels["alertname"] != "Watchdog")


@pytest.mark.usefixtures("only_13")
def test_faults_are_told_and_then_that_they_are_over(faulty: Node, hook: Webhook) -> None:
    """Many at once, with durations of seconds."""
    # The agent first, for which an Xid is a fault for 10 min as shipped. A restarted Prometheus
    # does not know what it told before, so nobody would end it: Alertmanager keeps it for minutes,
    # and a driver that hung silences its GPUs for as long.
    assert faulty.changed("secrets", "agent", **QUICK) == 1
    wait_for_silence(faulty)
    assert faulty.changed("monitoring", **QUICK) == 1
    wait_for_silence(faulty)
    hook.from_now()
    change(
        faulty,
        Request("throttle", gpu=0, reason="hw-thermal"),
        Request("memory-leak", gpu=0, count=2000),
        Request("ecc-corrected", gpu=0, count=30_000_000),
        Request("ecc-uncorrected", gpu=0, count=3),
        Request("remap-pending", gpu=0),
        Request("xid", gpu=0, code=13),
        Request("xid", gpu=1, code=998),
    )
    set_readings(faulty, 0, "temperature=89", "remapped_correctable=600")
    busy(faulty, 1, 50)
    faulty.run("fallocate -l 19500K /small/full")
    expected = {
        ("GpuThrottled", "0"), ("GpuHot", "0"), ("GpuLeakedMemory", "0"), ("GpuRemapDue", "0"),
        ("GpuRemappedRows", "0"), ("GpuEccCorrected", "0"), ("GpuEccUncorrected", "0"),
        ("GpuJobFault", "0"), ("GpuXid", "1"), ("GpuStarved", "1"), ("DiskNearlyFull", ""),
    }  # fmt: skip

    wait_for_all(hook, "firing", expected, 75)
    for one in hook.told():
        if one.labels["alertname"] == "Watchdog":
            continue
        text = " ".join(one.annotations.values())
        assert not re.search(r"<error|error executing|<no value>|\{\{", text), one
        assert {"summary", "evidence", "next_step", "look"} <= set(one.annotations), one
    # DiskLow is the same at a smaller scale, and silent meanwhile.
    assert not hook.find("DiskLow")
    make_healthy(faulty)
    hook.from_now()
    # New errors count for 15 min.
    wait_for_all(hook, "resolved", expected - {("GpuEccUncorrected", "0")}, 120)


@pytest.mark.usefixtures("only_13")
def test_hung_jobs_missing_gpus_and_silent_agents_are_told(faulty: Node, hook: Webhook) -> None:
    assert faulty.changed("agent", **{**QUICK, "agent_expected_gpus": 3}) == 1
    hook.from_now()
    hook.wait("GpuMissing", seconds=30)
    set_readings(faulty, 0, "power=20")
    busy(faulty, 0, 100)
    busy(faulty, 1, 0)
    wait_until("a hung collective and process", lambda: hook.find("GpuCollectiveHung", index="0")
               and hook.find("GpuProcessHung", index="1"), 75)  # fmt: skip
    faulty.run("systemctl stop gpuferry-agent")
    hook.wait("AgentDown", seconds=30)
    faulty.run("systemctl start gpuferry-agent")
    hook.wait("AgentDown", "resolved", seconds=75)


@pytest.mark.usefixtures("only_13")
def test_a_hand_edit_is_mended_and_a_bad_rule_never_replaces_a_good_one(node: Node) -> None:
    node.run("echo nonsense > /etc/gpuferry/monitoring/alertmanager.yml")
    before = node.run("sha256sum /etc/gpuferry/monitoring/rules.yml")
    wrong = {**MONITORED, "monitoring_alerts": {"GpuHot": {"for": "soon"}}}
    with pytest.raises(StepFailed, match=r"rules\.yml would not be accepted, so nothing was"):
        node.play("monitoring", **wrong)
    assert node.run("sha256sum /etc/gpuferry/monitoring/rules.yml") == before
    assert node.changed("monitoring", **MONITORED) == 1
    assert node.changed("monitoring", **MONITORED) == 0


def test_all_ways_of_telling_are_accepted_by_amtool(node: Node) -> None:
    """Mail, Telegram and Slack cannot be reached from here: their configuration is judged."""
    assert node.args is not None
    new = node.args.image == "debian-13"
    receivers = {
        "webhook": {"url_secret": "pager"} if new else {"url": URL, "token_secret": "pager"},
        "email": {"to": ["a@example.org"], "from": "b@example.org", "smarthost": "localhost:587",
                  "username": "b", "password_secret": "pager"},
        "slack": {"url_secret": "pager", "channel": "#gpus"},
        **({"telegram": {"chat_id": -7, "token_secret": "pager"}} if new else {}),
    }  # fmt: skip
    node.play("monitoring", **{**MONITORED, "monitoring_receivers": receivers})
    shown = node.run("amtool config show --alertmanager.url=http://127.0.0.1:9753")
    assert all(f"{kind}_configs" in shown for kind in receivers)


@pytest.mark.usefixtures("only_13")
def test_a_boot_brings_it_back_with_its_secrets(node: Node) -> None:
    node.play("monitoring", **MONITORED)
    node.restart()
    wait_until("targets", lambda: verdicts(node)["monitoring.targets"].status == "pass", 60)


@pytest.mark.usefixtures("only_13")
def test_an_image_is_baked_without_any_secret(node: Node) -> None:
    """What `desired.baked_variables` leaves out; the server's own converge brings it."""
    bare: dict[str, Any] = {"secrets_files": [], "monitoring_secrets": []}
    versions = {"monitoring_scrape_token": "", "agent_scrape_token": ""}
    node.play(*ROLES, **{**MONITORED, **bare, **versions})
    node.run("systemctl is-active gpuferry-prometheus gpuferry-alertmanager gpuferry-agent")
    assert node.run("find /run/gpuferry-*/ -type f -size +0").strip() == ""
    assert node.changed(*ROLES, **MONITORED) > 0
    wait_until("targets", lambda: verdicts(node)["monitoring.targets"].status == "pass", 60)


def test_without_the_section_it_is_gone(node: Node) -> None:
    assert node.changed("monitoring", monitoring_enabled=False) == 1
    node.run(
        "test ! -e /etc/gpuferry/monitoring && ! systemctl is-active gpuferry-prometheus && "
        "! systemctl cat gpuferry-alertmanager 2>/dev/null && ! pgrep -x prometheus"
    )
    assert node.changed("monitoring", monitoring_enabled=False) == 0


@pytest.mark.usefixtures("only_13")
def test_somebodys_own_prometheus_is_left_alone(node: Node) -> None:
    node.run(
        "rm /etc/systemd/system/prometheus.service; systemctl daemon-reload; "
        "sed -i 's/^ARGS=.*/ARGS=\"--web.listen-address=127.0.0.1:9090\"/' "
        "/etc/default/prometheus; "
        "echo '# ours' >> /etc/prometheus/prometheus.yml; systemctl restart prometheus"
    )
    node.play(*ROLES, **MONITORED)
    assert node.run("systemctl is-active prometheus gpuferry-prometheus") == "active\nactive\n"
    assert "# ours" in node.run("cat /etc/prometheus/prometheus.yml")
