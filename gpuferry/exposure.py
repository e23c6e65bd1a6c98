"""Who may reach what of a server: one declared table, and what is rendered from it. Pure.

The host's rules (role variables), the provider's rules and the checks all come from here, so that
none of them can say something else than the others.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

ANYWHERE = {4: "0.0.0.0/0", 6: "::/0"}
# A network this wide is not somebody's own: an Internet registry gives out /8 and, in IPv6, /12.
_WIDEST_OWN = {4: 8, 6: 12}


@dataclass(frozen=True, order=True)
class Row:
    """One line of the table; everything that no row names is closed."""

    protocol: Literal["tcp", "udp"]
    port: int
    family: Literal[4, 6]
    source: str
    why: str

    @property
    def everyone(self) -> bool:
        """Whether the whole internet may."""
        return self.source == ANYWHERE[self.family]


def table(
    ssh_port: int, ssh_from: Iterable[str], open_ports: Iterable[dict[str, Any]]
) -> list[Row]:
    """The declared table; `open_ports` are `{port, protocol, from}`, no `from` is everyone."""
    rows = _rows("tcp", ssh_port, ssh_from, "ssh")
    for port in open_ports:
        sources = port.get("from") or ANYWHERE.values()
        rows += _rows(port.get("protocol", "tcp"), port["port"], sources, "declared")
    return sorted(set(rows))


def _rows(
    protocol: Literal["tcp", "udp"], port: int, sources: Iterable[str], why: str
) -> list[Row]:
    networks = [ipaddress.ip_network(source) for source in sources]
    return [
        Row(protocol, port, 4 if network.version == 4 else 6, str(network), why)
        for network in networks
    ]


def provider_rules(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The table as the security groups of providers take it: incoming, and nothing else allowed.

    Each is `{direction, family, protocol, from_port, to_port, cidr, description}`.
    """
    return [
        {
            "direction": "ingress",
            "family": f"ipv{row.family}",
            "protocol": row.protocol,
            "from_port": row.port,
            "to_port": row.port,
            "cidr": row.source,
            "description": f"{row.why}: {row.port}/{row.protocol}",
        }
        for row in rows
    ]


def never_limited(ssh_from: Iterable[str]) -> list[str]:
    """Networks whose logins are never rate-limited: those that are somebody's own.

    Everybody else is kept out by `ssh_from`; the limit is for servers whose SSH is open to the
    world, and the controller is among those who must never be shut out by it.
    """
    return [
        network
        for network in ssh_from
        if (parsed := ipaddress.ip_network(network)).prefixlen >= _WIDEST_OWN[parsed.version]
    ]
