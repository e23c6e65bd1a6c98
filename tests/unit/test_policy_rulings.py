"""What the policy pack asks of one resource, and what the program tells it of the stack file."""

from __future__ import annotations

from typing import Any

import pytest

from gpuferry.spec import parse_spec
from infra.components.declaration import declared
from policy import rulings
from policy.rulings import DECLARATION, Resource

SERVER = {"name": "gpu-1", "gpu": {"model": "L4", "count": 2}, "labels": {"owner": "ada"}}


def of_stack(**config: Any) -> Resource:
    """The declaration that the program registers for a stack file."""
    config = {"servers": [SERVER], **config}
    spec = parse_spec({f"gpuferry:{k}": v for k, v in config.items()}, "Pulumi.x.yaml")
    return Resource(DECLARATION, "declared", declared(spec))


OTHER = Resource("command:local:Command", "stack-keys", {"create": "true"})
REMOTE = "command:remote:Command"


@pytest.mark.parametrize(
    ("rule", "resource", "config", "status"),
    [
        ("ssh_not_open_to_the_world", of_stack(), {}, "kept"),
        ("ssh_not_open_to_the_world", OTHER, {}, None),
        ("gpu_cap", of_stack(), {}, None),
        ("gpu_cap", of_stack(), {"max_gpus": 2.0}, "kept"),
        ("gpu_cap", of_stack(), {"max_gpus": 1}, "broken"),
        ("gpu_cap", of_stack(servers=[{"name": "cpu-1"}]), {"max_gpus": 0}, "kept"),
        ("price_cap", of_stack(), {"max_price_per_hour": 1}, "not_evaluated"),
        ("price_cap", of_stack(servers=[{**SERVER, "price_per_hour": 1}]),
         {"max_price_per_hour": 1}, "kept"),
        ("labels_required", of_stack(), {"labels": ["owner"]}, "kept"),
        ("labels_required", of_stack(), {"labels": ["team"]}, "broken"),
        ("host_key_pinned", of_stack(), {}, "kept"),
        ("host_key_pinned", Resource(REMOTE, "r", {"connection": {"hostKey": "k"}}), {}, "kept"),
        ("host_key_pinned", Resource(REMOTE, "r", {"connection": {"hostKey": " "}}), {}, "broken"),
        ("host_key_pinned", Resource(REMOTE, "r",
         {"connection": {"hostKey": "k", "proxy": {"host": "jump"}}}), {}, "broken"),
        ("buckets_private", OTHER, {}, None),
        ("buckets_private", Resource("x", "b", {"acl": "private"}), {}, "kept"),
        ("buckets_private", Resource("x", "b", {"acl": "authenticated-read"}), {}, "broken"),
        ("data_protected", Resource("command:local:Command", "a-disk", {}), {}, None),
        ("data_protected", Resource("command:local:Command", "a-disk", {}),
         {"required": True}, "broken"),
        ("data_protected", Resource("command:local:Command", "a-disk", {}, protect=True),
         {"required": True}, "kept"),
        ("data_protected", OTHER, {"required": True}, "kept"),
    ],
)  # fmt: skip
def test_a_rule_judges_what_is_its_business_only(
    rule: str, resource: Resource, config: dict[str, Any], status: str | None
) -> None:
    ruling = getattr(rulings, rule)(resource, config)
    assert (ruling.status if ruling else None) == status


def test_a_declaration_holds_no_secret() -> None:
    rented = {"address": "192.0.2.1", "user": "ferry", "private_key": "canary-5511"}
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
    resource = of_stack(
        provider="ssh",
        firewall={"ssh_from": ["192.0.2.0/24"]},
        servers=[{"name": "gpu-1", "ssh": {**rented, "host_key": key}}],
    )
    assert resource.props["servers"]["gpu-1"]["host_key"] == key
    assert "canary-5511" not in repr(resource.props)
