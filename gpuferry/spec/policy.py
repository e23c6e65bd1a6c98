"""The rules that a stack must keep, over its spec. Pure; refused before anything is touched.

They hold for `ferry` and for a plain `pulumi up` alike, since both parse the spec. The policy pack
(`policy/`) judges what Pulumi is about to make by the same functions, under caps of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from gpuferry import rules
from gpuferry.rules import Ruling
from gpuferry.spec.strict import Strict

if TYPE_CHECKING:
    from gpuferry.spec.model import Spec


class PolicySpec(Strict):
    """Rules of a team for its stack; those about SSH and host keys always hold."""

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


def evaluate(spec: Spec) -> list[Ruling]:
    """All rules, in the order of this file."""
    return [rule(spec) for rule in RULES]


def ssh_is_not_open_to_the_world(spec: Spec) -> Ruling:
    """SSH from everywhere needs the word for it."""
    firewall = spec.firewall
    return rules.ssh_sources(
        "firewall.ssh_from", firewall.ssh_from, acknowledged=firewall.ssh_open_to_the_world
    )


def data_is_protected(spec: Spec) -> Ruling:
    """Nothing with data goes by itself."""
    word = "never" if spec.policy.protect_data else "only after a question or --yes"
    why = f"disks, buckets and volume keys are removed {word}"
    return Ruling(rule="policy.protect_data", status="kept", why=why)


def gpus_are_within_the_cap(spec: Spec) -> Ruling:
    """All GPUs of the stack together."""
    counts = [server.gpu.count for server in spec.servers if server.gpu]
    return rules.gpu_count("policy.max_gpus", counts, spec.policy.max_gpus)


def price_is_within_the_cap(spec: Spec) -> Ruling:
    """All servers' prices together."""
    prices = {server.name: server.price_per_hour for server in spec.servers}
    return rules.hourly_price("policy.max_price_per_hour", prices, spec.policy.max_price_per_hour)


def servers_carry_the_labels(spec: Spec) -> Ruling:
    """Every server says what the team wants to know of it."""
    carried = {server.name: server.labels for server in spec.servers}
    return rules.labels("policy.required_labels", carried, spec.policy.required_labels)


def every_connection_has_a_host_key(spec: Spec) -> Ruling:
    """Given by the user where the server was there before, else made before its first boot."""
    rented = {s.name: s.ssh.host_key if s.ssh else None for s in spec.servers}
    return rules.host_keys("servers[].ssh.host_key", rented if spec.provider == "ssh" else {})


RULES: list[Callable[[Spec], Ruling]] = [
    ssh_is_not_open_to_the_world,
    data_is_protected,
    gpus_are_within_the_cap,
    price_is_within_the_cap,
    servers_carry_the_labels,
    every_connection_has_a_host_key,
]
