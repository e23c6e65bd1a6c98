"""The one table of who may reach what, and what is made of it."""

from __future__ import annotations

import pytest

from gpuferry import exposure
from gpuferry.exposure import Row

SSH = ["192.0.2.0/24", "2001:db8::/32"]


def test_every_declared_source_is_one_row_of_its_family() -> None:
    rows = exposure.table(22, SSH, [{"port": 8888, "from": ["10.0.0.0/8"]}])
    assert rows == [
        Row("tcp", 22, 4, "192.0.2.0/24", "ssh"),
        Row("tcp", 22, 6, "2001:db8::/32", "ssh"),
        Row("tcp", 8888, 4, "10.0.0.0/8", "declared"),
    ]


@pytest.mark.parametrize("sources", [{}, {"from": []}])
def test_a_port_without_sources_is_open_to_both_internets(sources: dict[str, list[str]]) -> None:
    rows = exposure.table(22, [], [{"port": 53, "protocol": "udp", **sources}])
    assert [(r.family, r.source, r.everyone) for r in rows] == [
        (4, "0.0.0.0/0", True),
        (6, "::/0", True),
    ]


def test_provider_rules_say_the_same_as_the_table() -> None:
    rows = exposure.table(2222, SSH, [{"port": 443}])
    rules = exposure.provider_rules(rows)
    assert {(r["protocol"], r["from_port"], r["cidr"]) for r in rules} == {
        (row.protocol, row.port, row.source) for row in rows
    }
    assert all(r["from_port"] == r["to_port"] and r["direction"] == "ingress" for r in rules)
    assert rules[0]["description"] == "declared: 443/tcp"


@pytest.mark.parametrize(
    ("network", "own"),
    [
        ("0.0.0.0/0", False), ("::/0", False), ("0.0.0.0/1", False), ("2000::/3", False),
        ("10.0.0.0/8", True), ("192.0.2.7/32", True), ("2001:db8::/32", True),
    ],
)  # fmt: skip
def test_only_networks_that_are_somebodys_own_are_never_limited(network: str, own: bool) -> None:
    assert exposure.never_limited([network]) == ([network] if own else [])
