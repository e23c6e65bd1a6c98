"""What of a server may be seen from outside, and what is."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gpuferry.checking.expectations import Expectations
from gpuferry.checking.nft import ANYWHERE, Opening, collapse
from gpuferry.checking.outside import Answer, probe
from gpuferry.checking.sockets import Listener

# Must never answer unasked: telnet, rpcbind, Docker's API, databases, notebooks, metrics.
_USUAL_SUSPECTS = (23, 111, 2375, 3306, 5432, 6379, 8888, 9090, 9100, 65000)
_MOST_LISTENERS = 20


def expected_openings(expectations: Expectations, *, ssh: bool = True) -> set[Opening]:
    """Return what the firewall must let in."""
    wanted: set[Opening] = set()
    if ssh:
        sources = expectations.ssh_from or [ANYWHERE]
        wanted = {Opening(expectations.ssh_port, "tcp", source) for source in sources}
    for port in expectations.open_ports:
        wanted |= {Opening(port.port, port.protocol, s) for s in port.from_ or [ANYWHERE]}
    return collapse(wanted)


def differences(wanted: set[Opening], found: set[Opening]) -> list[str]:
    """Return what is missing and what should not be there."""
    missing = [f"missing: {opening}" for opening in sorted(wanted - found)]
    return missing + [f"not declared: {opening}" for opening in sorted(found - wanted)]


def global_ipv6(text: str) -> list[str]:
    """Return the addresses of `ip -j -6 address show scope global`."""
    entries = [entry for link in json.loads(text or "[]") for entry in link.get("addr_info", [])]
    # iproute2 leaves an empty entry where a link has no address of that scope.
    return [entry["local"] for entry in entries if "local" in entry]


@dataclass(frozen=True)
class Seen:
    """What a look from the controller showed."""

    problems: list[str]
    evidence: str


def look(
    expectations: Expectations,
    addresses: Sequence[str],
    listeners: Iterable[Listener],
    source: str,
) -> Seen:
    """Knock at a server's addresses; the first is the one that is known to be reachable.

    `source` is this controller as the server sees it at the first address.
    """
    ports = ports_to_probe(expectations, listeners)
    problems: dict[str, None] = {}
    evidence = [f"{len(ports)} TCP ports tried from {source}"]
    # Silence costs the whole deadline, so all addresses are waited for at once.
    with ThreadPoolExecutor(max(1, len(addresses))) as pool:
        answered = list(pool.map(lambda address: probe(address, ports), addresses))
    for address, answers in zip(addresses, answered, strict=True):
        if "no route" in answers.values():
            evidence.append(f"{address} not measured, no route from here")
            continue
        evidence.append(f"{address} tried")
        known_source = source if address == addresses[0] else ""
        problems |= dict.fromkeys(judge_probe(expectations, answers, known_source))
    return Seen(list(problems), "; ".join(evidence))


def ports_to_probe(expectations: Expectations, listeners: Iterable[Listener]) -> list[int]:
    """Return the TCP ports to try: declared ones, what listens, and a few that must be closed.

    SSH is left out: the session proves it, and sshd punishes clients that only knock.
    """
    listening = [x.port for x in listeners if x.protocol == "tcp"][:_MOST_LISTENERS]
    declared = [p.port for p in expectations.open_ports if p.protocol == "tcp"]
    ports = {*declared, *listening, *_USUAL_SUSPECTS} - {expectations.ssh_port}
    return sorted(ports)


def judge_probe(
    expectations: Expectations, answers: Mapping[int, Answer], source: str
) -> list[str]:
    """Compare what answered with what may answer `source`; an empty source may be anyone.

    A declared port may be closed (its service is not there yet), but it must not be filtered.
    """
    openings = [o for o in expected_openings(expectations) if o.protocol == "tcp"]
    passing = {o.port for o in openings if _admits(o.source, source)}
    # Whether a port with a source list should answer cannot be told without knowing the source.
    unclear = {o.port for o in openings} - passing if not source else set()
    filtered = [p for p, a in answers.items() if p in passing and a == "silent"]
    undeclared = set(answers) - passing - unclear
    answering = [p for p in undeclared if answers[p] == "open"]
    unfiltered = [p for p in undeclared if answers[p] == "closed"]
    problems = []
    if filtered:
        problems.append(f"declared but filtered: {_ports(filtered)}")
    if answering:
        problems.append(f"open but not declared: {_ports(answering)}")
    if unfiltered:
        problems.append(
            f"not filtered (nobody listens, yet the server answers): {_ports(unfiltered)}"
        )
    return problems


def _ports(ports: Iterable[int]) -> str:
    return ", ".join(str(port) for port in sorted(ports))


def _admits(network: str, source: str) -> bool:
    if network == ANYWHERE:
        return True
    if not source:
        return False
    address = ipaddress.ip_address(source)
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address) in ipaddress.ip_network(network)
