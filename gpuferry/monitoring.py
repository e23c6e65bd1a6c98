"""Who watches whom, and what each server needs for it. Pure: spec and addresses in, variables out.

Prometheus and Alertmanager run on one server. Agents of other servers are asked over the private
network, with one token of the stack, which every watched server gets as a secret.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from gpuferry.paths import REPOSITORY
from gpuferry.spec.model import ServerSpec, Spec
from gpuferry.spec.monitoring import SCRAPE_TOKEN, secret_names

AGENT_PORT = 9750
RULES = REPOSITORY / "roles/monitoring/files/rules.yml"


def alert_names() -> list[str]:
    """Names of all alerts, in the order of the rule file."""
    import yaml

    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"]]


def own_server(spec: Spec) -> str:
    """Where Prometheus runs; empty when nothing is monitored."""
    if spec.monitoring is None:
        return ""
    return spec.monitoring.server or spec.servers[0].name


def watched(spec: Spec) -> list[str]:
    """Servers whose agents are asked, in the order of the stack file."""
    if spec.monitoring is None:
        return []
    wanted = spec.monitoring.watch
    return [s.name for s in spec.servers if s.gpu and (wanted is None or s.name in wanted)]


def unwatched(spec: Spec) -> dict[str, str]:
    """Servers that nothing is known about, and why."""
    if spec.monitoring is None:
        return {}
    found = watched(spec)
    return {
        server.name: "not in monitoring.watch" if server.gpu else "no gpu, so no agent"
        for server in spec.servers
        if server.name not in found
    }


def remote(spec: Spec, server: ServerSpec) -> bool:
    """Whether a server's agent is asked from another server."""
    return server.name in watched(spec) and server.name != own_server(spec)


def needs_token(spec: Spec, server: ServerSpec) -> bool:
    """Whether a server gets the token of the stack's agents: it is asked, or asks."""
    return server.name in (*watched(spec), own_server(spec))


def peers(spec: Spec, server: ServerSpec) -> list[str]:
    """Servers whose private addresses must be known before a server can be converged."""
    if server.name == own_server(spec):
        return [name for name in watched(spec) if name != server.name]
    return [own_server(spec)] if remote(spec, server) else []


def open_ports(
    spec: Spec, server: ServerSpec, addresses: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The agent's port, for Prometheus' address alone; as `open_ports` of a server has them."""
    source = addresses.get(own_server(spec))
    if not remote(spec, server) or source is None:
        return []
    width = 128 if ":" in source else 32
    return [{"port": AGENT_PORT, "protocol": "tcp", "from": [f"{source}/{width}"]}]


def secrets(spec: Spec, server: ServerSpec, token: str) -> list[dict[str, Any]]:
    """What a server gets beside its declared secrets, as `secrets_files` has them."""
    if not token or not needs_token(spec, server):
        return []
    return [{"name": SCRAPE_TOKEN, "value": token, "uid": 0}]


def agent_variables(
    spec: Spec, server: ServerSpec, addresses: Mapping[str, str], token: str
) -> dict[str, Any]:
    """Role variables of the agent: where it listens, and another token that it accepts."""
    if server.name not in watched(spec):
        return {}
    listen = addresses.get(server.name) if remote(spec, server) else None
    return {
        **({"agent_listen": listen} if listen else {}),
        "agent_scrape_token": _version(token),
    }


def role_variables(
    spec: Spec, server: ServerSpec, addresses: Mapping[str, str], token: str
) -> dict[str, Any]:
    """Role variables of `monitoring`; on other servers than its own, that it is not there."""
    if spec.monitoring is None or server.name != own_server(spec):
        return {"monitoring_enabled": False}
    declared = spec.monitoring
    names = sorted(set(secret_names(declared).values()))
    return {
        "monitoring_enabled": True,
        "monitoring_server": server.name,
        "monitoring_targets": targets(spec, addresses),
        "monitoring_receivers": declared.receivers.model_dump(by_alias=True, exclude_none=True),
        "monitoring_dead_man": (
            declared.dead_man.model_dump(exclude_none=True) if declared.dead_man else {}
        ),
        "monitoring_alerts": {
            name: change.model_dump(by_alias=True, exclude_none=True)
            for name, change in declared.alerts.items()
        },
        # Their values are for the role `secrets`; another version starts what read the old one.
        "monitoring_secrets": [
            {"name": name, "version": spec.secrets[name].changed} for name in names
        ],
        "monitoring_scrape_token": _version(token),
        "monitoring_retention_days": declared.retention_days,
        "monitoring_retention_gib": declared.retention_gib,
    }


def targets(spec: Spec, addresses: Mapping[str, str]) -> list[dict[str, str]]:
    """Agents with their addresses: loopback, or private ones; unknown ones are left out."""
    found = []
    for name in watched(spec):
        address = "127.0.0.1" if name == own_server(spec) else addresses.get(name)
        if address:
            host = f"[{address}]" if ":" in address else address
            found.append({"server": name, "address": f"{host}:{AGENT_PORT}"})
    return found


def expectations(spec: Spec, server: ServerSpec) -> dict[str, Any] | None:
    """What the checks of the monitoring server compare it with; None on others."""
    if spec.monitoring is None or server.name != own_server(spec):
        return None
    return {
        "targets": watched(spec),
        "unwatched": unwatched(spec),
        "receivers": [name for name, value in spec.monitoring.receivers if value is not None],
        "dead_man": spec.monitoring.dead_man is not None,
        "alerts": len(alert_names()) - sum(c.disabled for c in spec.monitoring.alerts.values()),
    }


def _version(token: str) -> str:
    """Tells one token from another and nothing about either: it has 256 random bits."""
    return hashlib.sha256(token.encode()).hexdigest()[:12] if token else ""
