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

# Connections that come in by these are not from outside: the server itself and its containers.
_INNER_INTERFACES = frozenset(("lo", "docker0", "br-*"))
_ICMP = frozenset(("icmp", "icmpv6", "ipv6-icmp"))
_DHCP_SERVER_PORTS = frozenset((67, 547))
# nft shows numbers where /etc/protocols is missing (a minimal system).
_PROTOCOL_NAMES = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6"}


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
    """One table, as far as connections from outside are concerned.

    `published` are the ports that containers may be reached on; None when nothing guards them.
    """

    input_policy: str = ""
    openings: set[Opening] = field(default_factory=set)
    published: set[Opening] | None = None
    unexplained: list[str] = field(default_factory=list)


class _NotUnderstood(Exception):
    """A rule uses an expression that this reader does not know."""


def parse_ruleset(text: str) -> Ruleset:
    """Parse the JSON of `nft -j list table …`; an empty text is a table that does not exist."""
    objects = json.loads(text)["nftables"] if text.strip() else []
    sets = {o["set"]["name"]: o["set"].get("elem", []) for o in objects if "set" in o}
    rules = [o["rule"] for o in objects if "rule" in o]
    hooks = {o["chain"]["name"]: o["chain"].get("hook", "") for o in objects if "chain" in o}
    ruleset = Ruleset()
    for chain in (o["chain"] for o in objects if "chain" in o):
        if chain.get("hook") == "input" and ruleset.input_policy != "drop":
            ruleset.input_policy = chain["policy"]
    closed = {name for name in hooks if not _opens(name, rules)}
    incoming = [
        rule["expr"]
        for rule in rules
        if hooks.get(rule["chain"]) == "input" and _target(rule["expr"]) not in closed
    ]
    ruleset.openings = _all_openings(incoming, sets, ruleset.unexplained)
    forwarded = [rule["expr"] for rule in rules if hooks.get(rule["chain"]) == "forward"]
    for guard in {target for rule in forwarded if (target := _guard(rule))}:
        guarding = [rule["expr"] for rule in rules if rule["chain"] == guard]
        if guarding and guarding[-1] == [{"drop": None}]:
            published = _all_openings(guarding, sets, ruleset.unexplained)
            ruleset.published = (ruleset.published or set()) | published
    return ruleset


def other_filters(text: str, ours: str = "gpuferry") -> list[str]:
    """Chains of others that drop what they do not know, from `nft -j list chains`."""
    objects = json.loads(text)["nftables"] if text.strip() else []
    chains = [o["chain"] for o in objects if "chain" in o]
    return sorted(
        f"table {chain['family']} {chain['table']}, chain {chain['name']}"
        for chain in chains
        if chain.get("policy") == "drop"
        and chain["table"] != ours
        # Docker's own forward policy is no obstacle to what it publishes itself.
        and chain.get("hook") == "input"
    )


def _opens(chain: str, rules: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any rule of a chain could let something in; one that only drops cannot."""
    verbs = ("accept", "jump", "goto", "vmap")
    own = [expression for rule in rules if rule["chain"] == chain for expression in rule["expr"]]
    return any(verb in expression for expression in own for verb in verbs)


def _target(rule: list[dict[str, Any]]) -> str:
    """Where a rule jumps to, empty for all others."""
    return next((e["jump"]["target"] for e in rule if "jump" in e), "")


def _guard(rule: list[dict[str, Any]]) -> str:
    """Return the chain that a rule sends new connections to published ports (DNAT) to."""
    matches = [(e["match"]["left"].get("ct", {}), e["match"]) for e in rule if "match" in e]
    seen = {ct.get("key"): match["right"] for ct, match in matches if match["op"] in ("==", "in")}
    jumps = [e["jump"]["target"] for e in rule if "jump" in e]
    wide = len(matches) == len(seen) and set(seen) <= {"status", "state"}
    return jumps[0] if jumps and wide and seen.get("status") == "dnat" else ""


def _all_openings(
    rules: Iterable[list[dict[str, Any]]], sets: Mapping[str, list[Any]], unexplained: list[str]
) -> set[Opening]:
    openings: set[Opening] = set()
    for rule in rules:
        if not any(verb in e for e in rule for verb in ("accept", "jump", "goto", "vmap")):
            continue
        try:
            openings |= _openings(rule, sets)
        except _NotUnderstood as reason:
            unexplained.append(f"{reason} in {json.dumps(rule)[:200]}")
    return collapse(openings)


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
    reach = _Reach()
    for match in (e["match"] for e in expressions if "match" in e):
        values = _values(match["right"], sets)
        if match["left"].get("meta", {}).get("key") == "l4proto":
            values = [_PROTOCOL_NAMES.get(v, v) if isinstance(v, int) else v for v in values]
        if match["op"] not in ("==", "in"):
            raise _NotUnderstood(f"operator {match['op']}")
        if _is_harmless(match["left"], values):
            return set()
        reach.narrow(match["left"], values)
    if not any("accept" in e for e in expressions):
        raise _NotUnderstood("jump to another chain")
    if not reach.ports or reach.protocol not in ("tcp", "udp"):
        raise _NotUnderstood("accept without a port")
    sources = reach.sources or [ANYWHERE]
    return {Opening(port, reach.protocol, source) for port in reach.ports for source in sources}


@dataclass
class _Reach:
    """What one rule's matches come to."""

    protocol: str = ""
    ports: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def narrow(self, left: Mapping[str, Any], values: list[Any]) -> None:
        """Take one match into account."""
        payload, key = left.get("payload", {}), left.get("meta", {}).get("key")
        if payload.get("field") == "dport":
            if payload["protocol"] != "th":  # "transport header": another match names the protocol
                self.protocol = payload["protocol"]
            self.ports += [port for value in values for port in _ports(value)]
        elif payload.get("field") == "saddr":
            self.sources += [str(n) for value in values for n in _networks(value)]
        elif left.get("ct") == {"key": "proto-dst", "dir": "original"}:
            self.ports += [port for value in values for port in _ports(value)]
        elif key == "l4proto":
            self.protocol = self.protocol or (values[0] if len(values) == 1 else "")
        elif key != "nfproto":
            raise _NotUnderstood(f"match on {json.dumps(left)}")


def _is_harmless(left: Mapping[str, Any], values: list[Any]) -> bool:
    """Whether this match alone makes sure that no connection to a service comes in from outside."""
    if any(not isinstance(value, str | int) for value in values):
        return False
    seen = set(values)
    payload, key = left.get("payload", {}), left.get("meta", {}).get("key")
    return (
        (left.get("ct", {}).get("key") == "state" and seen <= {"established", "related"})
        or (key in ("iif", "iifname") and seen <= _INNER_INTERFACES)
        or (key == "l4proto" and seen <= _ICMP)
        or payload.get("protocol") in _ICMP
        or (payload.get("field") == "sport" and seen <= _DHCP_SERVER_PORTS)
    )


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
