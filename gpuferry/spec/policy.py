"""The rules that a stack must keep, over its spec. Pure; refused before anything is touched.

They hold for `ferry` and for a plain `pulumi up` alike, since both parse the spec. A rule that
cannot be evaluated says so and is never counted as kept.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from gpuferry.spec.strict import Strict

if TYPE_CHECKING:
    from gpuferry.spec.model import Spec


class PolicySpec(Strict):
    """Rules of a team for its stack; those about SSH, buckets and host keys always hold."""

    max_gpus: int | None = Field(default=None, ge=0, description="of all servers together")
    max_price_per_hour: float | None = Field(
        default=None, ge=0, description="of all servers' price_per_hour together"
    )
    required_labels: list[str] = Field(
        default_factory=list, description="keys that every server's labels must have"
    )
    protect_data: bool = Field(
        default=False,
        description="refuse to remove disks, buckets and volume keys, also with --yes",
    )


class Ruling(BaseModel):
    """What one rule says; `not_evaluated` is no good news."""

    model_config = ConfigDict(frozen=True)

    rule: str
    status: Literal["kept", "broken", "not_evaluated"]
    why: str


def evaluate(spec: Spec) -> list[Ruling]:
    """All rules, in the order of this file."""
    return [rule(spec) for rule in RULES]


def ssh_is_not_open_to_the_world(spec: Spec) -> Ruling:
    """SSH from everywhere needs the word for it."""
    everywhere = world(spec.firewall.ssh_from)
    if everywhere and not spec.firewall.ssh_open_to_the_world:
        return _ruling(
            "firewall.ssh_from",
            f"{' + '.join(everywhere)} lets the whole internet reach SSH; name your own networks, "
            "or set firewall.ssh_open_to_the_world: true if you mean it",
        )
    return _ruling("firewall.ssh_from", kept="acknowledged" if everywhere else "own networks only")


def buckets_are_private(spec: Spec) -> Ruling:
    """No key of the stack file makes a bucket public, and each has a key pair of its own."""
    return _ruling("object_stores", kept=f"{len(spec.object_stores)} buckets, none can be public")


def data_is_protected(spec: Spec) -> Ruling:
    """Nothing with data goes by itself."""
    word = "never" if spec.policy.protect_data else "only after a question or --yes"
    return _ruling("policy.protect_data", kept=f"disks, buckets and volume keys are removed {word}")


def gpus_are_within_the_cap(spec: Spec) -> Ruling:
    """All GPUs of the stack together."""
    cap, name = spec.policy.max_gpus, "policy.max_gpus"
    count = sum(server.gpu.count for server in spec.servers if server.gpu)
    if cap is not None and count > cap:
        return _ruling(name, f"{cap} GPUs, but the servers declare {count}")
    return _ruling(name, kept=f"{count} GPUs, {'no cap' if cap is None else f'at most {cap}'}")


def price_is_within_the_cap(spec: Spec) -> Ruling:
    """All servers' prices together; one without a price may cost anything."""
    cap, name = spec.policy.max_price_per_hour, "policy.max_price_per_hour"
    if cap is None:
        return _ruling(name, kept="no cap")
    known = sum(server.price_per_hour or 0 for server in spec.servers)
    unknown = [server.name for server in spec.servers if server.price_per_hour is None]
    if known > cap:
        return _ruling(name, f"{cap:g} an hour, but the servers cost {known:g}")
    if unknown:
        why = f"no price_per_hour is declared for {', '.join(unknown)}"
        return Ruling(rule=name, status="not_evaluated", why=why)
    return _ruling(name, kept=f"{known:g} an hour, at most {cap:g}")


def servers_carry_the_labels(spec: Spec) -> Ruling:
    """Every server says what the team wants to know of it."""
    for server in spec.servers:
        missing = [k for k in spec.policy.required_labels if not server.labels.get(k, "").strip()]
        if missing:
            return _ruling(
                "policy.required_labels", f"{server.name} lacks the labels {', '.join(missing)}"
            )
    return _ruling("policy.required_labels", kept=f"{len(spec.servers)} servers carry them")


def every_connection_has_a_host_key(spec: Spec) -> Ruling:
    """Given by the user where the server was there before, else made before its first boot."""
    bare = [
        s.name for s in spec.servers if spec.provider == "ssh" and not (s.ssh and s.ssh.host_key)
    ]
    if bare:
        return _ruling("servers[].ssh.host_key", f"none for {', '.join(bare)}")
    return _ruling("servers[].ssh.host_key", kept="pinned from the first connection")


RULES: list[Callable[[Spec], Ruling]] = [
    ssh_is_not_open_to_the_world,
    buckets_are_private,
    data_is_protected,
    gpus_are_within_the_cap,
    price_is_within_the_cap,
    servers_carry_the_labels,
    every_connection_has_a_host_key,
]


def world(networks: list[str]) -> list[str]:
    """Those networks that together are the whole internet, of one family; else empty."""
    parsed = [ipaddress.ip_network(network) for network in networks]
    # Two halves of the internet are the internet too.
    for version in (4, 6):
        same = [network for network in parsed if network.version == version]
        whole = ipaddress.ip_network("0.0.0.0/0" if version == 4 else "::/0")
        if whole in ipaddress.collapse_addresses(same):  # type: ignore[type-var]
            return [str(network) for network in parsed]
    return []


def _ruling(rule: str, broken: str = "", *, kept: str = "") -> Ruling:
    return Ruling(rule=rule, status="broken" if broken else "kept", why=broken or kept)
