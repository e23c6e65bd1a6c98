"""What one server shall be: the spec and a few facts in, role variables and expectations out.

Pure functions. The same result drives the playbooks (how it becomes so) and the checks (whether
it is so), so the two cannot disagree about what was declared.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gpuferry import exposure, monitoring
from gpuferry.logs import place as logs
from gpuferry.spec.model import ServerSpec, Spec

_SHARED = {
    "firewall", "ssh", "mirrors", "docker", "driver", "users", "updates", "agent", "provider",
    "logs", "monitoring",
}  # fmt: skip
ROLES = [
    "base", "ssh_hardening", "firewall", "docker", "updates", "secrets", "log_shipping",
    "monitoring",
]  # fmt: skip
# The toolkit's CDI specification and runtime are there before Docker's first start.
GPU_ROLES = [
    "base",
    "ssh_hardening",
    "firewall",
    "nvidia_driver",
    "nvidia_cuda",
    "fabric_manager",
    # Containers are given the instances, so these are there before the toolkit describes them.
    "mig",
    "container_toolkit",
    "docker",
    "freeze",
    "updates",
    # Among them may be the token that the agent and Prometheus share.
    "secrets",
    # Only where there are GPUs: everything that it tells is about them.
    "agent",
    # Played only where logs are declared, or were.
    "log_shipping",
    # Does something on the one server that watches, and where it did before.
    "monitoring",
]
# `encryption` only where a volume is declared.
ALL_ROLES = [*GPU_ROLES, "encryption"]
# What Docker needs for GPUs, beside what the stack declares: merged into daemon.json by its owner.
GPU_DOCKER: dict[str, dict[str, Any]] = {
    "features": {"cdi": True},
    "runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}},
}


LOOPBACK = ["127.0.0.0/8", "::1/128"]


def declared_digest(spec: Spec, server: ServerSpec) -> str:
    """Hash of all that is declared about one server; another one means that `up` is due."""
    shared = spec.model_dump_json(include=_SHARED)
    stores = ",".join(sorted(store.name for store in spec.object_stores))
    # Not their values: whoever reads the stack file cannot decrypt them, and must get the same.
    secrets = [
        [name, secret.uid, secret.changed]
        for name, secret in sorted(spec.secrets.items())
        if secret.is_for(server.name)
    ]
    text = f"{server.model_dump_json()}{shared}{stores}{json.dumps(secrets) if secrets else ''}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class StackFacts(BaseModel):
    """What a provider knows only once the stack's shared parts exist."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    management_networks: list[str] = Field(
        default_factory=list, description="networks this machine reaches the servers from"
    )
    ca_certificates: dict[str, str] = Field(
        default_factory=dict, description="file name to PEM text, to be trusted by every server"
    )
    object_stores: list[dict[str, str]] = Field(default_factory=list)
    volume_keys: dict[str, str] = Field(
        default_factory=dict, description="key of each encrypted volume of the server, by its name"
    )
    log_recipient: str = Field(default="", description="whose key opens the logs; empty: clear")
    addresses: dict[str, str] = Field(
        default_factory=dict, description="private addresses of servers, as far as they are needed"
    )
    scrape_token: str = Field(default="", description="of the stack's agents, where one is needed")


def roles(server: ServerSpec) -> list[str]:
    """The roles of a server, in the order in which they are played."""
    own = GPU_ROLES if server.gpu else ROLES
    if not server.encrypted_volumes:
        return own
    # Before Docker, which may keep its data there.
    at = own.index("docker")
    return [*own[:at], "encryption", *own[at:]]


def driver_wish(spec: Spec, server: ServerSpec) -> dict[str, Any]:
    """The driver block of the server, or the stack's, with the number of declared GPUs."""
    block = (server.driver or spec.driver).model_dump()
    if server.gpu is None:
        return {**block, "gpus": 0, "mig": None}
    return {**block, "gpus": server.gpu.count, "mig": server.gpu.mig_layout}


def ssh_from(spec: Spec, facts: StackFacts) -> list[str]:
    """Networks that may reach SSH: the declared ones and those this machine comes from."""
    return sorted({*spec.firewall.ssh_from, *facts.management_networks})


def exposure_table(
    spec: Spec, server: ServerSpec, management: list[str], addresses: dict[str, str] | None = None
) -> list[exposure.Row]:
    """Who may reach what of a server; `management` are this machine's own networks."""
    facts = StackFacts(management_networks=management, addresses=addresses or {})
    return exposure.table(_ssh_port(server), ssh_from(spec, facts), _ports(spec, server, facts))


def role_variables(spec: Spec, server: ServerSpec, facts: StackFacts) -> dict[str, Any]:
    """Ansible variables of one server."""
    sources = {"debian": spec.mirrors.debian, "security": spec.mirrors.debian_security}
    return {
        "ferry_roles": roles(server),
        "base_hostname": server.name,
        "base_packages_ahead": ["netbase", "nftables", "unattended-upgrades"],
        "base_users": _users(spec),
        "base_extra_ca_certificates": _certificates(facts),
        "base_apt_sources": {key: url for key, url in sources.items() if url},
        "ssh_hardening_kex_profile": spec.ssh.key_exchange,
        "ssh_hardening_forwarding_users": list(spec.ssh.port_forwarding),
        "ssh_hardening_never_banned": [*LOOPBACK, *exposure.never_limited(ssh_from(spec, facts))],
        "firewall_ssh_from": ssh_from(spec, facts),
        "firewall_ssh_port": _ssh_port(server),
        "firewall_open_ports": _ports(spec, server, facts),
        "updates_automatic": spec.updates.automatic,
        "updates_reboot_window": spec.updates.reboot_window,
        "secrets_files": _secrets(spec, server, facts),
        "docker_source": spec.docker.source,
        "docker_daemon_options": _docker_options(spec, server),
        **logs.variables(spec, server.name, facts.object_stores, facts.log_recipient),
        **_volume_variables(spec, server, facts),
        **_gpu_variables(spec, server),
        **monitoring.agent_variables(spec, server, facts.addresses, facts.scrape_token),
        **monitoring.role_variables(spec, server, facts.addresses, facts.scrape_token),
        **_size(spec, server),
    }


def baked_variables(spec: Spec, server: ServerSpec) -> dict[str, Any]:
    """Ansible variables of the server that becomes an image: no secret may be in it."""
    bare = server.model_copy(update={"encrypted_volumes": []})
    without: dict[str, Any] = {"secrets_files": [], "monitoring_secrets": []}
    # A store that the stack does not make brings its keys along.
    variables = role_variables(spec.model_copy(update={"logs": None}), bare, StackFacts())
    return {**variables, **{k: v for k, v in without.items() if k in variables}}


def baked_key(spec: Spec, server: ServerSpec) -> str:
    """What the baked image of a server depends on, beside the roles and the bare image."""
    variables = baked_variables(spec, server)
    own = ("firewall_ssh_from", "ssh_hardening_never_banned", "base_extra_ca_certificates")
    lasting = {k: v for k, v in variables.items() if k not in own and not k.startswith("resize_")}
    text = json.dumps([lasting, server.gpu.model_dump() if server.gpu else {}], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def expectations(
    spec: Spec, server: ServerSpec, user: str, kind: str, facts: StackFacts
) -> dict[str, Any]:
    """What the checks compare one server with; contains the keys of the object stores.

    `kind` is what the machine turned out to be: container, vm or server.
    """
    return {
        "hostname": server.name,
        "user": user,
        "ssh_port": _ssh_port(server),
        "ssh_from": ssh_from(spec, facts),
        "ssh": spec.ssh.model_dump(),
        "updates": spec.updates.model_dump(),
        "secrets": [{k: s[k] for k in ("name", "uid")} for s in _secrets(spec, server, facts)],
        "volumes": [volume.model_dump() for volume in server.encrypted_volumes],
        "open_ports": _ports(spec, server, facts),
        "users": _users(spec),
        "extra_ca_certificates": _certificates(facts),
        "object_stores": _stores(spec, facts),
        "logs": logs.place(spec, facts.object_stores) is not None,
        "roles": roles(server),
        "kind": kind,
        "docker": {"live_restore": spec.docker.daemon_options.get("live-restore", True)},
        "gpu": _gpu(spec, server),
        "monitoring": monitoring.expectations(spec, server),
    }


def _stores(spec: Spec, facts: StackFacts) -> list[dict[str, Any]]:
    required = {store.name for store in spec.object_stores if store.server_side_encryption}
    return [
        {**store, **({"server_side_encryption": True} if store["name"] in required else {})}
        for store in facts.object_stores
    ]


def _volume_variables(spec: Spec, server: ServerSpec, facts: StackFacts) -> dict[str, Any]:
    volumes = server.encrypted_volumes
    if not volumes:
        return {}
    root = f"{spec.docker.daemon_options.get('data-root', '/var/lib/docker')}/"
    return {
        "encryption_volumes": [
            {**volume.model_dump(), "key": facts.volume_keys.get(volume.name, "")}
            for volume in volumes
        ],
        "encryption_docker_needs": [v.name for v in volumes if root.startswith(f"{v.path}/")],
    }


def _secrets(spec: Spec, server: ServerSpec, facts: StackFacts) -> list[dict[str, Any]]:
    declared = [
        {"name": name, "value": secret.value.get_secret_value(), "uid": secret.uid}
        for name, secret in sorted(spec.secrets.items())
        if secret.is_for(server.name)
    ]
    return declared + monitoring.secrets(spec, server, facts.scrape_token)


def _gpu(spec: Spec, server: ServerSpec) -> dict[str, Any] | None:
    if server.gpu is None:
        return None
    wish = driver_wish(spec, server)
    declared = server.gpu.model_dump(exclude={"mig"})
    return {**declared, "cuda": wish["cuda"], "mig": wish["mig"]}


def _gpu_variables(spec: Spec, server: ServerSpec) -> dict[str, Any]:
    if server.gpu is None:
        return {}
    # Keys of JSON objects are text.
    layout = {str(index): parts for index, parts in (server.gpu.mig_layout or {}).items()}
    wish = driver_wish(spec, server)
    return {
        "nvidia_driver_wish": {**wish, "mig": layout or None},
        "mig_layout": layout,
        "agent_expected_gpus": server.gpu.count,
        **{f"agent_{key}": value for key, value in spec.agent.model_dump().items()},
    }


def _docker_options(spec: Spec, server: ServerSpec) -> dict[str, Any]:
    options = dict(spec.docker.daemon_options)
    for key, value in (GPU_DOCKER if server.gpu else {}).items():
        own = options.get(key, {})
        options[key] = {**value, **own} if isinstance(own, dict) else own
    return options


def _size(spec: Spec, server: ServerSpec) -> dict[str, Any]:
    """The declared size; a rented server has the size it has."""
    keys = ("cpus", "memory_gib", "data_disk_gib")
    declared = spec.provider != "ssh"
    return {f"resize_{key}": getattr(server, key) if declared else 0 for key in keys}


def _ssh_port(server: ServerSpec) -> int:
    return server.ssh.port if server.ssh else 22


def _users(spec: Spec) -> list[dict[str, Any]]:
    return [user.model_dump() for user in spec.users]


def _ports(spec: Spec, server: ServerSpec, facts: StackFacts) -> list[dict[str, Any]]:
    declared = [port.model_dump(by_alias=True) for port in server.open_ports]
    return declared + monitoring.open_ports(spec, server, facts.addresses)


def _certificates(facts: StackFacts) -> list[dict[str, str]]:
    return [{"name": name, "pem": pem} for name, pem in sorted(facts.ca_certificates.items())]
