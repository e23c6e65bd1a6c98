"""Who watches whom: what the stack file may say, and what servers and Prometheus make of it."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest
import yaml

from gpuferry import desired, exposure, monitoring
from gpuferry.checking.expectations import Expectations
from gpuferry.errors import SpecError
from gpuferry.paths import REPOSITORY
from gpuferry.spec import Spec, parse_spec
from tests.support.alert_cases import CASES

GPU = {"model": "L4", "count": 2}
ONE = [{"name": "gpu-1", "gpu": GPU}]
MIXED = [{"name": "cpu-1"}, {"name": "gpu-1", "gpu": GPU}, {"name": "gpu-2", "gpu": GPU}]
ADDRESSES = {"cpu-1": "10.0.0.1", "gpu-1": "10.0.0.2", "gpu-2": "fd00::3"}
FACTS = desired.StackFacts(addresses=ADDRESSES, scrape_token="a-token")


def spec(servers: list[dict[str, Any]], said: Any = None, **more: Any) -> Spec:
    config = {"servers": servers, **({} if said is None else {"monitoring": said}), **more}
    return parse_spec({f"gpuferry:{key}": value for key, value in config.items()})


def by_name(declared: Spec, name: str) -> Any:
    return next(server for server in declared.servers if server.name == name)


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    path = REPOSITORY / "playbooks/filter_plugins/monitoring.py"
    module = ModuleType("monitoring_filters")
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module


SECRETS = {"pager": {"value": {"secure": "x"}}, "far": {"value": {"secure": "x"}, "servers": ["b"]}}
REFUSED = [
    ({"server": "gpu-9"}, "monitoring.server: there is no server 'gpu-9'; declared: gpu-1, b"),
    ({"watch": ["gpu-9"]}, "monitoring.watch: there is no server 'gpu-9'"),
    ({"watch": ["b"]}, "monitoring.watch: b declares no gpu, so it has no agent"),
    ({"watch": []}, "monitoring.watch: names nobody"),
    ({"receivers": {"pigeon": {}}}, "monitoring.receivers.pigeon: unknown key"),
    ({"receivers": {"webhook": {}}}, "receivers.webhook: give exactly one of url and url_secret"),
    ({"receivers": {"webhook": {"url": "example.org"}}}, "webhook.url: that is no web address"),
    ({"receivers": {"webhook": {"url": "http://h:99999/"}}}, "webhook.url: that is no web address"),
    (
        {"receivers": {"webhook": {"url": "https://me:hush@h/"}}},
        "that web address holds a name or a password; keep it with ./ferry secret set NAME",
    ),
    (
        {"receivers": {"webhook": {"url": "http://example.org/", "token_secret": "pager"}}},
        "token_secret would cross the network in clear; use https",
    ),
    (
        {"receivers": {"slack": {"url_secret": "none"}}},
        "monitoring.receivers.slack.url_secret: there is no secret 'none'; keep it with "
        "./ferry secret set none --server gpu-1",
    ),
    (
        {"receivers": {"slack": {"url_secret": "far"}}},
        "the secret 'far' does not reach gpu-1, where Alertmanager runs",
    ),
    ({"receivers": {"slack": {"url_secret": "https://x/T0KEN"}}}, "that is not a secret's name"),
    (
        {"receivers": {"email": {"to": [], "from": "a@b", "smarthost": "h:25"}}},
        "receivers.email.to: list should have at least 1 item",
    ),
    (
        {"receivers": {"email": {"to": ["a@b"], "from": "a@b", "smarthost": "mail"}}},
        "'mail' is no mail server; accepted: such as 'mail.example.org:587'",
    ),
    (
        {"receivers": {"email": {"to": ["a@b"], "from": "a@b", "smarthost": "h:25",
                                 "username": "a"}}},
        "give both username and password_secret, or neither",
    ),
    ({"dead_man": {"url": "ftp://x"}}, "monitoring.dead_man.url: that is no web address"),
    ({"alerts": {"GpuCold": {}}}, "monitoring.alerts: 'GpuCold' is no alert; accepted: GpuDriver"),
    ({"alerts": {"GpuHot": {"for": "soon"}}}, "monitoring.alerts.GpuHot.for"),
    # Which promtool on the server would refuse, much later.
    ({"alerts": {"GpuHot": {"for": "5s1h"}}}, "the larger first"),
    ({"alerts": {"GpuHot": {"for": "1h1h"}}}, "the larger first"),
    ({"alerts": {"GpuHot": {"keep_firing_for": "999999d"}}}, "the larger first"),
    ({"alerts": {"GpuHot": {"for": ""}}}, "the larger first"),
    ({"alerts": {"Watchdog": {"disabled": True}}}, "Watchdog cannot be disabled"),
    ({"retention_days": 0}, "monitoring.retention_days"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "sentence"), REFUSED)
def test_a_mistake_is_named_before_anything_is_done(said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec([*ONE, {"name": "b"}], said, secrets=SECRETS)
    assert sentence in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "T0KEN" not in str(caught.value)


def test_who_sets_a_secret_may_find_it_named_already() -> None:
    """Else the advice of the refusal would be refused, too."""
    said = {"receivers": {"slack": {"url_secret": "pager"}}, "dead_man": {"url_secret": "other"}}
    config = {"gpuferry:servers": ONE, "gpuferry:monitoring": said}
    assert parse_spec(config, secrets_may_come=True).monitoring
    with pytest.raises(SpecError, match="there is no secret 'pager'"):
        parse_spec(config)


def test_without_gpus_there_is_nothing_to_watch() -> None:
    with pytest.raises(SpecError, match="since no server declares a gpu; leave it out"):
        spec([{"name": "a"}], {})


def test_the_name_of_our_own_token_is_taken() -> None:
    with pytest.raises(SpecError, match=r"secrets\.gpuferry-scrape-token: that name is taken"):
        spec(ONE, {}, secrets={"gpuferry-scrape-token": {"value": {"secure": "x"}}})


def rented(address: str, name: str) -> dict[str, Any]:
    from gpuferry import keys

    key = keys.ssh_key_pair("")["public"]
    ssh = {"address": address, "user": "debian", "host_key": key, "key_file": "~/.ssh/id"}
    return {"name": name, "gpu": GPU, "ssh": ssh}


@pytest.mark.parametrize(
    ("addresses", "said", "refused"),
    [
        (["203.0.113.7", "10.0.0.2"], {}, "gpu-1 is reached at 203.0.113.7"),
        (["10.0.0.2", "203.0.113.7"], {}, "gpu-2 is reached at 203.0.113.7"),
        (["10.0.0.2", "host.example.org"], {}, "gpu-2 is reached at host.example.org"),
        (["10.0.0.2", "100.64.0.1"], {}, "gpu-2 is reached at 100.64.0.1"),
        (["10.0.0.2", "fd00::7"], {}, None),
        (["203.0.113.7", "203.0.113.8"], {"watch": ["gpu-1"]}, None),
        (["203.0.113.7", "203.0.113.8"], {"watch": ["gpu-2"]}, "would cross the internet in clear"),
        (["203.0.113.7"], {}, None),
    ],
)
def test_no_token_crosses_the_internet(
    addresses: list[str], said: dict[str, Any], refused: str | None
) -> None:
    servers = [rented(address, f"gpu-{n}") for n, address in enumerate(addresses, 1)]

    def declare() -> Spec:
        return spec(servers, said, provider="ssh", firewall={"ssh_from": ["192.0.2.1/32"]})

    if refused is None:
        assert declare().monitoring
        return
    with pytest.raises(SpecError, match=re.escape(refused)):
        declare()


def test_left_out_nothing_is_there_and_no_token_is_made() -> None:
    declared = spec(MIXED)
    for server in declared.servers:
        found = desired.role_variables(declared, server, FACTS)
        assert found["monitoring_enabled"] is False
        assert found["secrets_files"] == []
        assert not found["firewall_open_ports"]
        assert "agent_listen" not in found
        assert monitoring.peers(declared, server) == []
    assert monitoring.watched(declared) == []


def test_one_server_watches_itself_on_loopback() -> None:
    declared = spec(ONE, {})
    found = desired.role_variables(declared, declared.servers[0], FACTS)
    assert found["monitoring_targets"] == [{"server": "gpu-1", "address": "127.0.0.1:9750"}]
    assert found["firewall_open_ports"] == []
    assert "agent_listen" not in found
    assert [s["name"] for s in found["secrets_files"]] == ["gpuferry-scrape-token"]


def test_others_listen_in_the_private_network_for_who_watches_alone() -> None:
    declared = spec(MIXED, {})
    own, one, two = (desired.role_variables(declared, server, FACTS) for server in declared.servers)
    assert own["monitoring_targets"] == [
        {"server": "gpu-1", "address": "10.0.0.2:9750"},
        {"server": "gpu-2", "address": "[fd00::3]:9750"},
    ]
    assert (one["agent_listen"], two["agent_listen"]) == ("10.0.0.2", "fd00::3")
    opened = [{"port": 9750, "protocol": "tcp", "from": ["10.0.0.1/32"]}]
    assert one["firewall_open_ports"] == two["firewall_open_ports"] == opened
    assert own["firewall_open_ports"] == []
    assert [v["monitoring_enabled"] for v in (own, one, two)] == [True, False, False]
    versions = {
        own["monitoring_scrape_token"],
        one["agent_scrape_token"],
        two["agent_scrape_token"],
    }
    assert len(versions) == 1
    assert "a-token" not in versions


def test_firewall_provider_and_checks_are_told_the_same() -> None:
    declared = spec(MIXED, {"server": "gpu-2"})
    server = by_name(declared, "gpu-1")
    rows = desired.exposure_table(declared, server, ["10.0.0.0/24"], ADDRESSES)
    assert [(r.port, r.source) for r in rows if r.port == 9750] == [(9750, "fd00::3/128")]
    expected = desired.expectations(declared, server, "ferry", "container", FACTS)
    ports = Expectations.model_validate(expected).open_ports
    assert exposure.table(22, ["10.0.0.0/24"], [p.model_dump(by_alias=True) for p in ports]) == rows


def test_the_checks_know_what_is_watched_and_what_is_not() -> None:
    declared = spec(MIXED, {"watch": ["gpu-1"], "alerts": {"GpuHot": {"disabled": True}}})
    told = desired.expectations(declared, declared.servers[0], "ferry", "container", FACTS)
    found = Expectations.model_validate(told).monitoring
    assert found is not None
    assert found.targets == ["gpu-1"]
    assert found.unwatched == {"cpu-1": "no gpu, so no agent", "gpu-2": "not in monitoring.watch"}
    assert found.alerts == len(monitoring.alert_names()) - 1
    other = desired.expectations(declared, declared.servers[1], "ferry", "container", FACTS)
    assert other["monitoring"] is None


def test_nothing_secret_is_baked() -> None:
    said = {"receivers": {"slack": {"url_secret": "pager"}}}
    declared = spec(ONE, said, secrets={"pager": {"value": {"secure": "x"}, "changed": "then"}})
    baked = desired.baked_variables(declared, declared.servers[0])
    assert baked["secrets_files"] == baked["monitoring_secrets"] == []
    assert baked["monitoring_scrape_token"] == baked["agent_scrape_token"] == ""
    assert baked["monitoring_enabled"] is True


def test_another_value_of_a_secret_is_another_input() -> None:
    said = {"receivers": {"slack": {"url_secret": "pager"}}}

    def versions(changed: str) -> Any:
        secrets = {"pager": {"value": {"secure": "x"}, "changed": changed}}
        declared = spec(ONE, said, secrets=secrets)
        return desired.role_variables(declared, declared.servers[0], FACTS)["monitoring_secrets"]

    assert versions("1") != versions("2")


def test_alertmanager_reads_every_secret_from_a_file(plugin: ModuleType) -> None:
    receivers = {
        "webhook": {"url_secret": "s1", "token_secret": "s2"},
        "email": {"to": ["a@b", "c@d"], "from": "e@f", "smarthost": "h:587", "username": "u",
                  "password_secret": "s3"},
        "telegram": {"chat_id": -1, "token_secret": "s4"},
        "slack": {"url_secret": "s5", "channel": "#x"},
    }  # fmt: skip
    made = yaml.safe_load(plugin.monitoring_alertmanager(receivers, {"url": "https://x/"}))
    text = yaml.safe_dump(made["receivers"])
    for name in ("s1", "s2", "s3", "s4", "s5"):
        assert re.search(rf"_file: /run/gpuferry-alertmanager/{name}\n", text), name
    team, dead_man = made["receivers"]
    assert set(team) == {"name", *(f"{kind}_configs" for kind in receivers)}
    assert team["email_configs"][0]["require_tls"] is True
    assert dead_man["webhook_configs"][0]["send_resolved"] is False


def test_without_receivers_nobody_is_told(plugin: ModuleType) -> None:
    made = yaml.safe_load(plugin.monitoring_alertmanager({}, {}))
    assert made["receivers"] == [{"name": "team"}, {"name": "dead-man"}]


def test_a_stack_may_think_otherwise_of_an_alert(plugin: ModuleType) -> None:
    rules = yaml.safe_load(monitoring.RULES.read_text())
    made = yaml.safe_load(plugin.monitoring_rules(rules, {
        "GpuStarved": {"for": "1h", "keep_firing_for": None}, "GpuHot": {"disabled": True},
    }))  # fmt: skip
    found = {rule["alert"]: rule for group in made["groups"] for rule in group["rules"]}
    assert found["GpuStarved"]["for"] == "1h"
    assert found["GpuStarved"]["keep_firing_for"] == "5m"
    assert "GpuHot" not in found
    assert len(found) == len(monitoring.alert_names()) - 1


RULES = [r for g in yaml.safe_load(monitoring.RULES.read_text())["groups"] for r in g["rules"]]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_every_alert_says_what_why_and_what_next_and_has_cases(rule: dict[str, Any]) -> None:
    assert {"summary", "evidence", "next_step"} <= set(rule["annotations"])
    assert set(rule["labels"]) == {"severity", "scope"}
    assert rule["labels"]["severity"] in ("critical", "warning", "info", "none")
    cases = [case for case in CASES if case.alert == rule["alert"]]
    assert {case.fires is None for case in cases} == {True, False}


def told_series() -> set[str]:
    """Names of everything that the agent can tell, by its own source."""
    source = (REPOSITORY / "agent/metrics.py").read_text()
    names = set(re.findall(r'"((?:gpu|node_agent)_[a-z_0-9]+)"', source))
    mounts = {f"node_agent_disk_{n}" for n in ("size_bytes", "free_bytes", "inodes_free_ratio")}
    return names | {f"{name}_total" for name in names} | mounts


_SERIES = re.compile(r"\b((?:gpu|node_agent)_[a-z0-9_]+)\b(?=[{\[ )]|$| )")


def test_every_alert_asks_for_series_that_exist() -> None:
    for rule in RULES:
        texts = [
            rule["expr"],
            *re.findall(r'printf "([^"]*)"', " ".join(rule["annotations"].values())),
        ]
        for text in texts:
            assert set(_SERIES.findall(text)) <= told_series(), rule["alert"]


def test_the_dashboard_asks_for_series_that_exist() -> None:
    import json

    board = json.loads((REPOSITORY / "docs/grafana-dashboard.json").read_text())
    asked = [t["expr"] for panel in board["panels"] for t in panel.get("targets", [])]
    assert len(asked) >= 8
    for expression in asked:
        names = set(_SERIES.findall(expression))
        assert names or "ALERTS" in expression, expression
        assert names <= told_series(), expression
