"""The rules over the spec: each is kept, broken, or says that it could not be evaluated."""

from __future__ import annotations

from typing import Any

import pytest

from gpuferry.errors import SpecError
from gpuferry.spec import parse_spec, policy

SERVER = {"name": "gpu-1"}
L4 = {"model": "L4", "count": 2}
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
RENTED = {"address": "192.0.2.1", "user": "ferry", "key_file": "/root/key"}


def parse(**config: Any) -> Any:
    config = {"servers": [SERVER], **config}
    return parse_spec({f"gpuferry:{k}": v for k, v in config.items()}, "Pulumi.x.yaml")


def ruling(name: str, **config: Any) -> policy.Ruling:
    return next(r for r in policy.evaluate(parse(**config)) if r.rule == name)


@pytest.mark.parametrize(
    ("rule", "config", "status", "why"),
    [
        ("firewall.ssh_from", {}, "kept", "own networks"),
        ("firewall.ssh_from", {"firewall": {"ssh_from": ["192.0.2.0/24"]}}, "kept", "own networks"),
        (
            "firewall.ssh_from",
            {"firewall": {"ssh_from": ["::/0"], "ssh_open_to_the_world": True}},
            "kept",
            "acknowledged",
        ),
        ("object_stores", {"object_stores": [{"name": "data-sets"}]}, "kept", "1 buckets"),
        ("policy.protect_data", {}, "kept", "after a question"),
        ("policy.protect_data", {"policy": {"protect_data": True}}, "kept", "never"),
        ("policy.max_gpus", {}, "kept", "no cap"),
        ("policy.max_gpus", {"policy": {"max_gpus": 0}}, "kept", "at most 0"),
        (
            "policy.max_gpus",
            {"servers": [{**SERVER, "gpu": L4}], "policy": {"max_gpus": 2}},
            "kept",
            "2 GPUs, at most 2",
        ),
        ("policy.max_price_per_hour", {}, "kept", "no cap"),
        (
            "policy.max_price_per_hour",
            {"policy": {"max_price_per_hour": 3}},
            "not_evaluated",
            "no price_per_hour is declared for gpu-1",
        ),
        (
            "policy.max_price_per_hour",
            {"servers": [{**SERVER, "price_per_hour": 3}], "policy": {"max_price_per_hour": 3}},
            "kept",
            "3 an hour, at most 3",
        ),
        (
            "policy.required_labels",
            {"servers": [{**SERVER, "labels": {"owner": "ada"}}]}
            | {"policy": {"required_labels": ["owner"]}},
            "kept",
            "1 servers",
        ),
        ("servers[].ssh.host_key", {}, "kept", "pinned"),
    ],
)
def test_a_rule_says_what_it_found(
    rule: str, config: dict[str, Any], status: str, why: str
) -> None:
    found = ruling(rule, **config)
    assert found.status == status
    assert why in found.why


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"firewall": {"ssh_from": ["0.0.0.0/0"]}}, "ssh_from: 0.0.0.0/0 lets the whole"),
        ({"firewall": {"ssh_from": ["0.0.0.0/1", "128.0.0.0/1"]}}, "the whole internet"),
        ({"firewall": {"ssh_from": ["192.0.2.0/24", "::/0"]}}, "the whole internet"),
        ({"object_stores": [{"name": "data-sets", "public": True}]}, "unknown key"),
        (
            {"servers": [{**SERVER, "gpu": L4}], "policy": {"max_gpus": 1}},
            r"policy.max_gpus: 1 GPUs, but the servers declare 2",
        ),
        (
            {"servers": [{**SERVER, "price_per_hour": 2.5}, {"name": "b", "price_per_hour": 1}]}
            | {"policy": {"max_price_per_hour": 3}},
            "3 an hour, but the servers cost 3.5",
        ),
        # What is known to cost too much is refused, whatever the others cost.
        (
            {"servers": [{**SERVER, "price_per_hour": 4}, {"name": "b"}]}
            | {"policy": {"max_price_per_hour": 3}},
            "cost 4",
        ),
        ({"policy": {"required_labels": ["owner"]}}, "gpu-1 lacks the labels owner"),
        (
            {"servers": [{**SERVER, "labels": {"owner": " "}}]}
            | {"policy": {"required_labels": ["owner", "team"]}},
            "lacks the labels owner, team",
        ),
        (
            {"provider": "ssh", "servers": [{**SERVER, "ssh": RENTED}]},
            r"ssh.host_key: required",
        ),
    ],
)
def test_a_broken_rule_refuses_the_stack(config: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        parse(**config)
