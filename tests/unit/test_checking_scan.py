"""What nmap saw against the declared table, equally in both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuferry import exposure
from gpuferry.checking.nft import other_filters, parse_ruleset
from gpuferry.checking.scan import CannotScan, Scan, compare, parse

ROWS = exposure.table(
    22,
    ["10.0.0.0/8", "fd00::/8"],
    [{"port": 443}, {"port": 8888, "from": ["192.0.2.0/24"]}, {"port": 53, "protocol": "udp"}],
)
V4, V6 = ("10.0.0.5", "10.0.0.9"), ("fd00::5", "fd00::9")
GOOD: dict[Any, str] = {("tcp", 22): "open", ("tcp", 443): "open"}


def without(key: Any) -> dict[Any, str]:
    return {k: v for k, v in GOOD.items() if k != key}


CASES: dict[str, tuple[tuple[str, str], dict[Any, str], list[str]]] = {
    "as declared": (V4, GOOD, []),
    "as declared, IPv6": (V6, GOOD, []),
    "one open too many": (
        V4, {**GOOD, ("tcp", 5432): "open"}, ["5432/tcp IPv4 is open, and not declared"]),
    "one let through without a service": (
        V6, {**GOOD, ("tcp", 111): "closed"},
        ["111/tcp IPv6 is not filtered (nobody listens), and not declared"]),
    "a declared one missing": (
        V4, without(("tcp", 443)), ["443/tcp IPv4 is declared, and filtered"]),
    "SSH missing": (V6, without(("tcp", 22)), ["22/tcp IPv6 is declared, and filtered"]),
    "declared, service not there yet": (V4, {**GOOD, ("tcp", 443): "closed"}, []),
    "declared for others only": (
        V4, {**GOOD, ("tcp", 8888): "open"}, ["8888/tcp IPv4 is open, and not declared"]),
    "undeclared UDP": (
        V4, {**GOOD, ("udp", 161): "open"}, ["161/udp IPv4 is open, and not declared"]),
    "declared UDP that answers": (V4, {**GOOD, ("udp", 53): "open"}, []),
    "nothing at all": (
        V4, {}, [f"{p}/tcp IPv4 is declared, and filtered" for p in (22, 443)]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_compared_equally(case: str) -> None:
    (address, source), ports, problems = CASES[case]
    assert compare(ROWS, [Scan(address, source, ports)]).problems == problems


def test_who_is_admitted_depends_on_where_the_scan_came_from() -> None:
    seen = {**GOOD, ("tcp", 8888): "open"}
    found = compare(ROWS, [Scan("192.0.2.1", "192.0.2.7", seen)])
    assert found.problems == ["22/tcp IPv4 is open, and not declared"]


def test_silence_of_udp_says_nothing_and_is_told() -> None:
    found = compare(ROWS, [Scan(*V4, GOOD)])
    assert (found.unknown, found.unserved) == (["53/udp IPv4"], [])
    assert compare(ROWS, [Scan(*V4, {**GOOD, ("tcp", 443): "closed"})]).unserved == ["443/tcp IPv4"]


XML = """<nmaprun><host><ports><extraports state="filtered" count="65533"/>
<port protocol="tcp" portid="22"><state state="open"/></port>
<port protocol="tcp" portid="80"><state state="filtered"/></port>
<port protocol="udp" portid="53"><state state="open|filtered"/></port>
<port protocol="udp" portid="161"><state state="closed"/></port></ports></host>
<runstats><finished exit="success"/></runstats></nmaprun>"""


def test_only_ports_that_answered_count() -> None:
    assert parse(XML) == {("tcp", 22): "open", ("udp", 161): "closed"}


@pytest.mark.parametrize(
    "text",
    [
        XML.replace("success", "error"),
        "<nmaprun><runstats><finished exit='success'/></runstats></nmaprun>",
        "<nmaprun><host/></nmaprun>",
    ],
)
def test_a_scan_that_broke_off_is_no_scan(text: str) -> None:
    with pytest.raises(CannotScan):
        parse(text)


def chain(table: str, **more: str) -> dict[str, Any]:
    return {"chain": {"family": "ip", "table": table, "name": "INPUT", **more}}


def test_other_tables_that_drop_are_named() -> None:
    chains = [
        chain("filter", hook="input", policy="drop"),
        chain("gpuferry", hook="input", policy="drop"),
        chain("nat", hook="input", policy="accept"),
        chain("raw"),
    ]
    assert other_filters(json.dumps({"nftables": chains})) == ["table ip filter, chain INPUT"]
    assert other_filters("") == []


@pytest.mark.parametrize(("verdict", "understood"), [("drop", True), ("accept", False)])
def test_a_jump_is_harmless_only_where_nothing_can_be_let_in(
    verdict: str, understood: bool
) -> None:
    left = {"payload": {"protocol": "tcp", "field": "dport"}}
    match = {"match": {"op": "==", "left": left, "right": 22}}
    table = {"family": "inet", "table": "gpuferry"}
    objects = [
        {"chain": {**table, "name": "input", "hook": "input", "policy": "drop"}},
        {"chain": {**table, "name": "limited"}},
        {"rule": {**table, "chain": "input", "expr": [match, {"jump": {"target": "limited"}}]}},
        {"rule": {**table, "chain": "limited", "expr": [{verdict: None}]}},
    ]
    found = parse_ruleset(json.dumps({"nftables": objects}))
    assert (found.unexplained == []) is understood
