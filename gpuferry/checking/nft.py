"""Read `nft -j list table`: what a packet filter lets in.

An accepting rule that is not understood is reported as such; it never counts as harmless.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

ANYWHERE = "anywhere"
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Rules that accept by these alone let no new connection to a service in.
_HARMLESS_FIELDS = frozenset(("icmp", "icmpv6"))


@dataclass(frozen=True, order=True)
class Opening:
    """One port that the filter lets in, for one source network."""

    port: int
    protocol: str
    source: str = ANYWHERE

    def __str__(self) -> str:
        return f"{self.port}/{self.protocol} from {self.source}"


@dataclass
class Ruleset:
    """One table, as far as incoming connections are concerned."""

    policies: dict[str, str] = field(default_factory=dict, metadata={"doc": "by hook"})
    openings: set[Opening] = field(default_factory=set)
    unexplained: list[str] = field(default_factory=list)


class _NotUnderstood(Exception):
    """A rule uses an expression that this reader does not know."""


def parse_ruleset(text: str) -> Ruleset:
    """Parse the JSON of `nft -j list table …`; an empty text is a table that does not exist."""
    ruleset = Ruleset()
    objects = json.loads(text)["nftables"] if text.strip() else []
    sets = {o["set"]["name"]: o["set"].get("elem", []) for o in objects if "set" in o}
    chains = {o["chain"]["name"]: o["chain"] for o in objects if "chain" in o}
    for chain in chains.values():
        if "hook" in chain:
            ruleset.policies[chain["hook"]] = chain["policy"]
    for rule in (o["rule"] for o in objects if "rule" in o):
        if chains.get(rule["chain"], {}).get("hook", "input") != "input":
            continue
        expressions = rule["expr"]
        if not any("accept" in e or "jump" in e or "goto" in e for e in expressions):
            continue
        try:
            ruleset.openings |= _openings(expressions, sets)
        except _NotUnderstood as reason:
            ruleset.unexplained.append(f"{reason} in {json.dumps(expressions)[:200]}")
    ruleset.openings = collapse(ruleset.openings)
    return ruleset


def collapse(openings: Iterable[Opening]) -> set[Opening]:
    """Merge neighbouring source networks, as nftables does in its own sets."""
    sources: dict[tuple[int, str], list[str]] = {}
    for opening in openings:
        sources.setdefault((opening.port, opening.protocol), []).append(opening.source)
    merged: set[Opening] = set()
    for (port, protocol), names in sources.items():
        if ANYWHERE in names:
            merged.add(Opening(port, protocol))
            continue
        networks = [ipaddress.ip_network(name) for name in names]
        v4 = (n for n in networks if isinstance(n, ipaddress.IPv4Network))
        v6 = (n for n in networks if isinstance(n, ipaddress.IPv6Network))
        for network in (*ipaddress.collapse_addresses(v4), *ipaddress.collapse_addresses(v6)):
            merged.add(Opening(port, protocol, str(network)))
    return merged


def _openings(expressions: list[dict[str, Any]], sets: Mapping[str, list[Any]]) -> set[Opening]:
    protocol = ""
    ports: list[int] = []
    sources: list[str] = []
    harmless = False
    for match in (e["match"] for e in expressions if "match" in e):
        left, values = match["left"], _values(match["right"], sets)
        payload, meta = left.get("payload", {}), left.get("meta", {}).get("key")
        if match["op"] not in ("==", "in"):
            raise _NotUnderstood(f"operator {match['op']}")
        if payload.get("field") == "dport":
            protocol = payload["protocol"]
            ports += [port for value in values for port in _ports(value)]
        elif payload.get("field") == "saddr":
            sources += [str(n) for value in values for n in _networks(value)]
        elif payload.get("protocol") in _HARMLESS_FIELDS or meta in ("iif", "iifname"):
            harmless = harmless or meta is None or values == ["lo"]
        elif left.get("ct", {}).get("key") == "state":
            harmless = harmless or set(values) <= {"established", "related"}
        elif meta in ("l4proto", "nfproto"):
            harmless = harmless or set(values) <= {"icmp", "icmpv6", "ipv6-icmp"}
        else:
            raise _NotUnderstood(f"match on {json.dumps(left)}")
    if any("jump" in e or "goto" in e for e in expressions):
        raise _NotUnderstood("jump")
    if harmless:
        return set()
    if not ports or protocol not in ("tcp", "udp"):
        raise _NotUnderstood("accept without a port")
    return {Opening(p, protocol, s) for p in ports for s in sources or [ANYWHERE]}


def _values(right: Any, sets: Mapping[str, list[Any]]) -> list[Any]:
    if isinstance(right, str) and right.startswith("@"):
        return list(sets[right[1:]])
    if isinstance(right, dict) and "set" in right:
        return list(right["set"])
    return right if isinstance(right, list) else [right]


def _ports(value: Any) -> Iterable[int]:
    if isinstance(value, dict) and "range" in value:
        low, high = value["range"]
        return range(low, high + 1)
    if not isinstance(value, int):
        raise _NotUnderstood(f"port {value}")
    return [value]


def _networks(value: Any) -> Iterable[_Network]:
    if isinstance(value, str):
        return [ipaddress.ip_network(value)]
    if "prefix" in value:
        return [ipaddress.ip_network(f"{value['prefix']['addr']}/{value['prefix']['len']}")]
    if "range" in value:
        first, last = (ipaddress.ip_address(end) for end in value["range"])
        return list(ipaddress.summarize_address_range(first, last))
    raise _NotUnderstood(f"address {value}")
