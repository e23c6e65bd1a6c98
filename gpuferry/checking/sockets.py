"""Read `ss -Hlntu`: who listens where, and whether that can be reached from outside.

testinfra's own `is_listening` mistakes v4-mapped and wildcard addresses for each other
(pytest-testinfra issues 286, 389 and 422), so this reads ss itself.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Listener:
    """One listening socket; the address is `*` for every address of both families."""

    protocol: str
    port: int
    address: str

    @property
    def is_loopback(self) -> bool:
        """Whether only the server itself can connect."""
        if self.address == "*":
            return False
        address = ipaddress.ip_address(self.address.split("%", 1)[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return (mapped or address).is_loopback

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}/{self.protocol}"


def parse_listeners(text: str) -> list[Listener]:
    """Parse the lines of `ss -Hlntu` (protocol, state, queues, local address, peer)."""
    found: set[Listener] = set()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 5:
            continue
        address, _, port = fields[4].rpartition(":")
        # An interface may follow: 127.0.0.53%lo, and IPv6 stands in brackets: [fe80::1]%eth0.
        address = address.replace("[", "").replace("]", "")
        found.add(Listener(fields[0], int(port), address))
    return sorted(found)


def reachable_listeners(text: str) -> list[Listener]:
    """Return the listeners that are not bound to loopback."""
    return [listener for listener in parse_listeners(text) if not listener.is_loopback]
