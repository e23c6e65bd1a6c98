"""The inventory goes through the engine and comes back as what was declared."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuferry import inventory
from gpuferry.checking.expectations import Expectations
from gpuferry.spec import Spec
from infra.components.gpu_server import _inventory

MACHINE = {
    "address": "192.0.2.1",
    "port": 22,
    "user": "ferry",
    "host_key": "ssh-ed25519 AAAA",
    "private_address": "192.0.2.1",
    "instance_id": "x",
    "provider_facts": {"kind": "container"},
}
LAYOUT = {0: ["7g.80gb"], 1: ["3g.40gb", "2g.20gb"]}


def recorded(server: dict[str, Any], **shared: Any) -> dict[str, Any]:
    spec = Spec.model_validate({"servers": [{"name": "gpu-1", **server}], **shared})
    return _inventory(
        spec,
        spec.servers[0],
        machine=MACHINE,
        key={"private_key": "KEY"},
        networks=["192.0.2.0/24"],
        certificates={},
        stores=[],
        volume_keys={},
        log_recipient="",
        addresses={},
        token="",
    )


@pytest.mark.parametrize(
    ("server", "shared"),
    [
        ({}, {}),
        ({"gpu": {"model": "L4", "count": 2}}, {}),
        ({"gpu": {"model": "A100-80", "count": 2, "mig": LAYOUT}}, {}),
        ({"gpu": {"model": "A100-80", "count": 2, "mig": ["3g.40gb"]}}, {}),
        ({}, {"docker": {"daemon_options": {"log-opts": {1: "a"}}}}),
    ],
)
def test_the_engine_can_hold_it(server: dict[str, Any], shared: dict[str, Any]) -> None:
    raw = recorded(server, **shared)
    assert json.loads(json.dumps(raw)) == raw


def test_a_mig_layout_comes_back_by_index() -> None:
    raw = recorded({"gpu": {"model": "A100-80", "count": 2, "mig": LAYOUT}})
    expectations = Expectations.model_validate(inventory.parse(raw).expectations)
    assert expectations.gpu is not None
    assert expectations.gpu.mig == LAYOUT
