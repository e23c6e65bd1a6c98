"""Filters over lists of CIDRs, for the firewall role."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

# Ansible loads plugins by file; the decisions are the package's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gpuferry.exposure import never_limited


def in_networks(address: str, networks: list[str]) -> bool:
    """Whether one of `networks` (CIDRs of either family) holds `address`."""
    wanted = ipaddress.ip_address(address.split("%")[0])
    return any(wanted in ipaddress.ip_network(network, strict=False) for network in networks)


def of_family(networks: list[str], version: int) -> list[str]:
    """The CIDRs of one IP version, without overlaps, which nftables refuses in a set."""
    found = [ipaddress.ip_network(network, strict=False) for network in networks]
    return [
        str(network)
        for network in ipaddress.collapse_addresses(n for n in found if n.version == version)
    ]


def bad_networks(networks: list[str]) -> list[str]:
    """Those that are no CIDR."""
    bad = []
    for network in networks:
        try:
            ipaddress.ip_network(network, strict=False)
        except ValueError:
            bad.append(network)
    return bad


class FilterModule:
    """What Ansible looks for in this file."""

    def filters(self):
        """Return the filters by name."""
        return {
            "in_networks": in_networks,
            "of_family": of_family,
            "bad_networks": bad_networks,
            "own_networks": never_limited,
        }
