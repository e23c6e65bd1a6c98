"""The rules of a team, over plain values. Pure; nothing here knows where the values come from.

The stack file is judged by them (`gpuferry.spec.policy`), and so is what Pulumi is about to make
(`policy/`, the policy pack). A rule that cannot be evaluated says so and never counts as kept.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

# Endings of the names of resources whose removal loses data. Without its key, what a volume holds
# and what was sealed is lost, too.
HOLDING_DATA = ("-disk", "-bucket", "-volume-key", "-data-key")

# S3's canned ACLs that let in others than the owner:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/acl-overview.html#canned-acl
_SHARED_ACLS = ("public-read", "public-read-write", "authenticated-read", "aws-exec-read")


@dataclass(frozen=True)
class Ruling:
    """What one rule says; `not_evaluated` is no good news."""

    rule: str
    status: Literal["kept", "broken", "not_evaluated"]
    why: str


def ssh_sources(rule: str, networks: list[str], *, acknowledged: bool) -> Ruling:
    """SSH from everywhere needs the word for it."""
    everywhere = world(networks)
    if everywhere and not acknowledged:
        return _ruling(
            rule,
            f"{' + '.join(everywhere)} lets the whole internet, or much of it, reach SSH; name "
            "your own networks, or set firewall.ssh_open_to_the_world: true if you mean it",
        )
    return _ruling(rule, kept="acknowledged" if everywhere else "own networks only")


def bucket_access(rule: str, acls: Mapping[str, str]) -> Ruling:
    """Nobody but the owner of a bucket reads it; `acls` are S3's canned ones, by bucket."""
    shared = [f"{name} ({acl})" for name, acl in acls.items() if acl in _SHARED_ACLS]
    if shared:
        return _ruling(rule, f"others may read {', '.join(shared)}; accepted: private")
    return _ruling(rule, kept=f"{len(acls)} buckets, all private")


def gpu_count(rule: str, counts: Iterable[int], cap: int | None) -> Ruling:
    """All GPUs together."""
    count = sum(counts)
    if cap is not None and count > cap:
        return _ruling(rule, f"{cap} GPUs, but the servers declare {count}")
    return _ruling(rule, kept=f"{count} GPUs, {'no cap' if cap is None else f'at most {cap}'}")


def hourly_price(rule: str, prices: Mapping[str, float | None], cap: float | None) -> Ruling:
    """All servers' prices together; one without a price may cost anything."""
    if cap is None:
        return _ruling(rule, kept="no cap")
    known = sum(price or 0 for price in prices.values())
    unknown = [name for name, price in prices.items() if price is None]
    if known > cap:
        return _ruling(rule, f"{cap:g} an hour, but the servers cost {known:g}")
    if unknown:
        why = f"no price_per_hour is declared for {', '.join(unknown)}"
        return Ruling(rule=rule, status="not_evaluated", why=why)
    return _ruling(rule, kept=f"{known:g} an hour, at most {cap:g}")


def labels(rule: str, carried: Mapping[str, Mapping[str, str]], required: Iterable[str]) -> Ruling:
    """Every server says what the team wants to know of it."""
    wanted = list(required)
    for name, own in carried.items():
        missing = [key for key in wanted if not own.get(key, "").strip()]
        if missing:
            return _ruling(rule, f"{name} lacks the labels {', '.join(missing)}")
    return _ruling(rule, kept=f"{len(carried)} servers carry them")


def host_keys(rule: str, known: Mapping[str, str | None]) -> Ruling:
    """Every connection knows the key of the server it is for; `known` is by server."""
    bare = [name for name, key in known.items() if not (key or "").strip()]
    if bare:
        return _ruling(rule, f"none for {', '.join(bare)}")
    return _ruling(rule, kept="pinned from the first connection")


def protection(rule: str, resource: str, *, protected: bool) -> Ruling:
    """What holds data is not removed by accident (Pulumi's option `protect`)."""
    if resource.endswith(HOLDING_DATA) and not protected:
        return _ruling(
            rule, f"{resource} holds data and is not protected; set policy.protect_data: true"
        )
    return _ruling(rule, kept="protected, or without data")


def world(networks: list[str]) -> list[str]:
    """All networks, where together they hold more than one owner can have; else empty.

    The largest blocks ever given to one organisation are a /8 (IANA's IPv4 address space registry)
    and, to a regional registry, a /12 (IANA's IPv6 global unicast registry). Private networks
    (RFC 4193: fc00::/7) are nobody's internet.
    """
    parsed = [ipaddress.ip_network(network) for network in networks]
    for version, largest in ((4, 8), (6, 12)):
        same = [n for n in parsed if n.version == version and not n.is_private]
        # Two halves of the internet are the internet too.
        joined = ipaddress.collapse_addresses(same)  # type: ignore[type-var]
        if any(network.prefixlen < largest for network in joined):
            return [str(network) for network in parsed]
    return []


def _ruling(rule: str, broken: str = "", *, kept: str = "") -> Ruling:
    return Ruling(rule=rule, status="broken" if broken else "kept", why=broken or kept)
