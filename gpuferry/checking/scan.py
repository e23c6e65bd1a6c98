"""Look at every port of a server from the controller, with nmap, and compare with the table.

All TCP ports of IPv4 and IPv6, and the UDP ports that are used most. Both directions count: what
answers without being declared, and what is declared and filtered.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

from gpuferry.exposure import Row

# A SYN is 60 bytes: 2.4 Mbit/s over the internet, and what a local bridge takes without loss.
_PACKETS_PER_SECOND = {"public": 5000, "private": 10000}
# nmap-services sorts by how often a port was found open; these cover 90 % (nmap's book, 4.1).
TOP_UDP = 100
_DEADLINE_SECONDS = 180


class CannotScan(Exception):
    """No scan was made; the message says why and what to do."""


@dataclass(frozen=True)
class Scan:
    """What nmap saw: every port that was not silent, `open` or `closed`, by protocol."""

    address: str
    source: str
    ports: Mapping[tuple[Literal["tcp", "udp"], int], str] = field(default_factory=dict)
    udp: bool = False

    @property
    def family(self) -> Literal[4, 6]:
        """IP version."""
        return 6 if ":" in self.address else 4


@dataclass(frozen=True)
class Compared:
    """The differences between the table and what was seen, in words; `unknown` was not told."""

    problems: list[str]
    unserved: list[str]
    unknown: list[str]


def compare(rows: Sequence[Row], scans: Iterable[Scan]) -> Compared:
    """Compare equally: an answering port that is not declared, a declared one that is filtered.

    A port that answers "nobody listens" has passed the filter: undeclared, it is open to the next
    service that takes it; declared, its service is just not there yet.
    """
    problems, unserved, unknown = [], [], []
    for scan in scans:
        where = f"IPv{scan.family}"
        admitted = {
            (row.protocol, row.port)
            for row in rows
            if row.family == scan.family and _admits(row.source, scan.source)
        }
        for key, state in sorted(scan.ports.items()):
            name = f"{key[1]}/{key[0]} {where}"
            if key not in admitted:
                said = "open" if state == "open" else "not filtered (nobody listens)"
                problems.append(f"{name} is {said}, and not declared")
            elif state == "closed":
                unserved.append(name)
        for protocol, port in sorted(admitted - set(scan.ports)):
            name = f"{port}/{protocol} {where}"
            if protocol == "tcp":
                problems.append(f"{name} is declared, and filtered")
            else:
                # UDP does not answer unasked, so silence is all that a filter and a service give.
                unknown.append(name)
    return Compared(problems, unserved, unknown)


def _admits(network: str, source: str) -> bool:
    return ipaddress.ip_address(source) in ipaddress.ip_network(network)


def parse(text: str) -> dict[tuple[Literal["tcp", "udp"], int], str]:
    """Ports that answered, from nmap's XML.

    Raises:
        CannotScan: nmap did not come to its end, or saw no host.
    """
    root = ET.fromstring(text)  # noqa: S314  # our own nmap wrote it
    finished = root.find("runstats/finished")
    if finished is None or finished.get("exit") != "success" or root.find("host") is None:
        reason = finished.get("errormsg", "") if finished is not None else ""
        raise CannotScan(f"nmap did not end well ({reason or 'no host was scanned'})")
    found: dict[tuple[Literal["tcp", "udp"], int], str] = {}
    for port in root.iterfind("host/ports/port"):
        state = port.find("state")
        told = state.get("state", "") if state is not None else ""
        if told in ("open", "closed"):
            protocol: Literal["tcp", "udp"] = "udp" if port.get("protocol") == "udp" else "tcp"
            found[protocol, int(port.get("portid", "0"))] = told
    return found


def scan_all(addresses: Sequence[str], source: str, only: str = "") -> list[Scan]:
    """Scan every address side by side; `source` is this machine as the first of them sees it.

    `only` bounds the TCP ports, as nmap's -p takes them.

    Raises:
        CannotScan: nmap is not here, or no address could be scanned.
    """
    if shutil.which("nmap") is None:
        raise CannotScan("nmap is not installed here; install it: apt-get install nmap")
    with ThreadPoolExecutor(max(1, len(addresses))) as pool:
        return list(
            pool.map(
                lambda address: _scan(
                    address, source if address == addresses[0] else _source_for(address), only
                ),
                addresses,
            )
        )


def reachable(address: str) -> bool:
    """Whether this machine has a route to an address; nothing is sent."""
    return bool(_source_for(address))


def _source_for(address: str) -> str:
    """The address that this machine would come from; empty without a route."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((address, 9))
            return str(sock.getsockname()[0])
        except OSError:
            return ""


def _scan(address: str, source: str, only: str) -> Scan:
    root = os.geteuid() == 0
    rate = _PACKETS_PER_SECOND["private" if ipaddress.ip_address(address).is_private else "public"]
    common = ["-n", "-Pn", "-T4", f"--min-rate={rate}", "--max-retries=1", "-oX", "-"]
    family = ["-6"] if ":" in address else []
    kind = "-sS" if root else "-sT"
    ports = dict(parse(_nmap([*family, kind, f"-p{only or '-'}", *common, address])))
    if root:
        ports |= parse(_nmap([*family, "-sU", f"--top-ports={TOP_UDP}", *common, address]))
    return Scan(address, source, ports, udp=root)


def _nmap(arguments: list[str]) -> str:
    try:
        done = subprocess.run(
            ["nmap", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=_DEADLINE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise CannotScan(f"nmap did not end within {_DEADLINE_SECONDS} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise CannotScan(f"nmap failed: {(lines or ['no reason given'])[-1]}")
    return done.stdout
