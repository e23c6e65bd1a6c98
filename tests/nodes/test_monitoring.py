"""The role monitoring on real servers; what makes alerts fire is in test_alerts.py."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

import pytest

from gpuferry.checking import run_checks
from gpuferry.errors import StepFailed
from gpuferry.monitoring import alert_names
from gpuferry.paths import REPOSITORY
from gpuferry.verdict import Verdict
from tests.support.alert_cases import promtool_files
from tests.support.monitored import MONITORED, ROLES, SECRETS
from tests.support.node import Node, NodeMaker
from tests.support.simulated import wait_until
from tests.support.webhook import URL, Webhook


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


@pytest.fixture(scope="module")
def node(image: str, new_node: NodeMaker) -> Node:
    node = new_node(image, name="gpu-1", gpu_model="L4", gpu_count=2)
    node.play("nvidia_driver", nvidia_driver_wish={"gpus": 2})
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


def test_the_dead_mans_switch_has_a_way_of_its_own(node: Node, hook: Webhook) -> None:
    hook.since = 0
    wait_until("the Watchdog", lambda: hook.find("Watchdog"), 60)
    assert {(t.path, t.authorization) for t in hook.find("Watchdog")} == {
        ("/dead-man", "Bearer a-pagers-token")
    }
    assert all(t.path == "/" for t in hook.told() if t.labels["alertname"] != "Watchdog")


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
