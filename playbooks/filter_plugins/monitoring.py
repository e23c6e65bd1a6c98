"""Configuration of Prometheus and Alertmanager out of what a stack declares. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import yaml

_SECRETS = "/run/gpuferry-alertmanager"
_GROUPING = {"group_by": ["alertname", "server"], "group_interval": "30s"}
_MESSAGE = {
    "title": '{{ template "gpuferry.title" . }}',
    "text": '{{ template "gpuferry.text" . }}',
}


class _Plain(yaml.SafeDumper):
    """No references within a file that people read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _yaml(data: Any) -> str:
    # Ansible's own kinds of text and number become plain ones.
    plain = json.loads(json.dumps(data))
    return yaml.dump(plain, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=140)


def monitoring_rules(rules: Mapping[str, Any], changes: Mapping[str, Mapping[str, Any]]) -> str:
    """The rule file with a stack's other opinions: {alert: {for, keep_firing_for, disabled}}."""
    groups = [
        {**group, "rules": [_rule(rule, changes.get(rule["alert"], {})) for rule in group["rules"]]}
        for group in rules["groups"]
    ]
    kept = [{**g, "rules": [rule for rule in g["rules"] if rule]} for g in groups]
    return _yaml({"groups": [group for group in kept if group["rules"]]})


def _rule(rule: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    if change.get("disabled"):
        return {}
    durations = {k: change[k] for k in ("for", "keep_firing_for") if change.get(k)}
    return {**rule, **durations}


def monitoring_alertmanager(
    receivers: Mapping[str, Mapping[str, Any]], dead_man: Mapping[str, Any]
) -> str:
    """alertmanager.yml. Secrets are files that only Alertmanager can read; it holds none itself."""
    team = {f"{kind}_configs": [_CONFIGS[kind](dict(told))] for kind, told in receivers.items()}
    watched = {"webhook_configs": [_webhook(dict(dead_man), resolved=False)]} if dead_man else {}
    return _yaml(
        {
            "templates": ["/etc/gpuferry/monitoring/message*.tmpl"],
            "route": {
                "receiver": "team",
                **_GROUPING,
                "group_wait": "1s",
                "repeat_interval": "24h",
                "routes": [
                    {
                        "matchers": ['alertname="Watchdog"'],
                        "receiver": "dead-man",
                        "group_wait": "0s",
                        "group_interval": "30s",
                        "repeat_interval": "1m",
                    },
                    # Waiting for company would cost time that a hung driver does not have.
                    {
                        "matchers": ['severity="critical"'],
                        "group_wait": "0s",
                        "repeat_interval": "4h",
                    },
                ],
            },
            "inhibit_rules": _INHIBIT,
            "receivers": [{"name": "team", **team}, {"name": "dead-man", **watched}],
        }
    )


# What is told already by something bigger. A silenced alert that outlasts it is told then.
_INHIBIT = [
    {
        "source_matchers": ['scope="driver"'],
        "target_matchers": ['scope="gpu"'],
        "equal": ["server"],
    },
    {
        "source_matchers": ['alertname="AgentDown"'],
        "target_matchers": ['scope=~"gpu|driver|disk|server"'],
        "equal": ["server"],
    },
    {
        "source_matchers": ['alertname="GpuFault"'],
        "target_matchers": ['scope="gpu"', 'alertname!="GpuFault"'],
        "equal": ["server", "uuid"],
    },
    {
        "source_matchers": ['alertname="DiskNearlyFull"'],
        "target_matchers": ['alertname=~"DiskLow|DiskFillingUp"'],
        "equal": ["server", "mount"],
    },
]


def _file(name: str) -> str:
    return f"{_SECRETS}/{name}"


def _webhook(told: dict[str, Any], *, resolved: bool = True) -> dict[str, Any]:
    address = (
        {"url_file": _file(told["url_secret"])} if "url_secret" in told else {"url": told["url"]}
    )
    # A redirect would take the token elsewhere.
    http: dict[str, Any] = {"follow_redirects": False}
    if "token_secret" in told:
        http["authorization"] = {"credentials_file": _file(told["token_secret"])}
    return {"send_resolved": resolved, **address, "http_config": http}


def _email(told: dict[str, Any]) -> dict[str, Any]:
    login = {}
    if "username" in told:
        login = {
            "auth_username": told["username"],
            "auth_password_file": _file(told["password_secret"]),
        }
    return {
        "send_resolved": True,
        "to": ", ".join(told["to"]),
        "from": told["from"],
        "smarthost": told["smarthost"],
        **login,
        "require_tls": True,
        "headers": {"subject": _MESSAGE["title"]},
        "html": "",
        "text": _MESSAGE["text"],
    }


def _telegram(told: dict[str, Any]) -> dict[str, Any]:
    # Without a mark-up, in which a "<" of a message would be an error.
    return {
        "send_resolved": True,
        "chat_id": told["chat_id"],
        "bot_token_file": _file(told["token_secret"]),
        "parse_mode": "",
        "message": f"{_MESSAGE['title']}\n\n{_MESSAGE['text']}",
    }


def _slack(told: dict[str, Any]) -> dict[str, Any]:
    channel = {"channel": told["channel"]} if "channel" in told else {}
    return {"send_resolved": True, "api_url_file": _file(told["url_secret"]), **channel, **_MESSAGE}


_CONFIGS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "webhook": _webhook,
    "email": _email,
    "telegram": _telegram,
    "slack": _slack,
}


def monitoring_target(target: Mapping[str, str]) -> dict[str, Any]:
    """One agent as Prometheus asks it."""
    return {"targets": [target["address"]], "labels": {"server": target["server"]}}


def monitoring_link(path: str, target: str) -> dict[str, str]:
    """A link as the module apply_files takes it."""
    return {"path": path, "link": target}


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Name to function."""
        return {
            "monitoring_rules": monitoring_rules,
            "monitoring_alertmanager": monitoring_alertmanager,
            "monitoring_target": monitoring_target,
            "monitoring_link": monitoring_link,
        }
