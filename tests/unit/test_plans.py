"""Pure decisions: what a server shall be, whether it fits, what a resize changes."""

from __future__ import annotations

from typing import Any

import pytest

from gpuferry import desired, keys
from gpuferry.checking.expectations import Expectations
from gpuferry.errors import SpecError
from gpuferry.nodes import rented
from gpuferry.nodes.local.capacity import Capacity, refusal
from gpuferry.nodes.server import Server
from gpuferry.operate.resizing import Sizes, plan
from gpuferry.spec import Spec, parse_spec

PUBLIC = keys.ssh_key_pair("")["public"]


def spec(*servers: dict[str, Any], **config: Any) -> Spec:
    declared = list(servers) or [{"name": "gpu-1"}]
    values = {"servers": declared, **config}
    return parse_spec({f"gpuferry:{key}": value for key, value in values.items()})


FACTS = desired.StackFacts(
    management_networks=["10.213.0.0/24"], ca_certificates={"b.crt": "B", "a.crt": "A"}
)


def test_playbooks_and_checks_are_told_the_same() -> None:
    declared = spec(
        {"name": "gpu-1", "open_ports": [{"port": 8888, "from": ["10.0.0.0/8"]}]},
        users=[{"name": "anna", "public_keys": [PUBLIC]}],
        firewall={"ssh_from": ["192.0.2.0/24"]},
    )
    variables = desired.role_variables(declared, declared.servers[0], FACTS)
    expected = desired.expectations(declared, declared.servers[0], "ferry", "container", FACTS)
    assert (
        variables["firewall_ssh_from"] == expected["ssh_from"] == ["10.213.0.0/24", "192.0.2.0/24"]
    )
    assert variables["firewall_open_ports"] == expected["open_ports"]
    assert variables["base_users"] == expected["users"]
    assert variables["ferry_roles"] == expected["roles"]
    assert [c["name"] for c in variables["base_extra_ca_certificates"]] == ["a.crt", "b.crt"]
    Expectations.model_validate(expected)  # the checks accept it


HAS = Capacity(cpus=4, memory_gib=8, disk_gib=100)


@pytest.mark.parametrize(
    ("servers", "sentence"),
    [
        ([{}], None),
        ([{"cpus": 4, "memory_gib": 8, "data_disk_gib": 100}], None),
        ([{"cpus": 5}], "servers[0] (s0).cpus: 5, but this machine has 4."),
        ([{}, {"data_disk_gib": 101}], "servers[1] (s1).data_disk_gib: 101"),
        ([{"memory_gib": 5}, {"memory_gib": 5}], "10 GiB of memory in all, but this machine has 8"),
    ],
)
def test_servers_that_do_not_fit_this_machine_are_refused(
    servers: list[dict[str, Any]], sentence: str | None
) -> None:
    declared = spec(*({"name": f"s{i}", **server} for i, server in enumerate(servers)))
    found = refusal(declared.servers, HAS)
    assert (found is None) if sentence is None else (found is not None and sentence in found)


def test_a_disk_that_is_there_already_needs_no_free_space() -> None:
    declared = spec({"name": "s0", "data_disk_gib": 150})
    assert refusal(declared.servers, HAS, {"s0": 150}) is None
    assert refusal(declared.servers, HAS, {"s0": 20}) is not None
    assert "can only grow" in str(refusal(declared.servers, HAS, {"s0": 200}))


def test_only_the_server_that_was_edited_is_due_for_up() -> None:
    one, two = {"name": "a"}, {"name": "b"}
    before, after = spec(one, two), spec(one, {**two, "open_ports": [{"port": 80}]})
    digests = [
        [desired.declared_digest(s, server) for server in s.servers] for s in (before, after)
    ]
    assert digests[0][0] == digests[1][0]
    assert digests[0][1] != digests[1][1]


TWO = ({"name": "gpu-1", "cpus": 1}, {"name": "gpu-2", "cpus": 3, "data_disk_gib": 9})


@pytest.mark.parametrize(
    ("name", "sizes", "servers", "changes", "removed"),
    [
        ("gpu-1", {"cpus": 2}, None, [("servers[0].cpus", "2")], []),
        ("gpu-2", {"memory_gib": 1.5}, None, [("servers[1].memory_gib", "1.5")], []),
        ("gpu-2", {"cpus": 3, "data_disk_gib": 10}, None, [("servers[1].data_disk_gib", "10")], []),
        (None, {}, 1, [("servers[1]", None)], ["gpu-2"]),
        (
            None,
            {},
            3,
            [
                ("servers[2].name", "gpu-3"),
                ("servers[2].cpus", "3"),
                ("servers[2].data_disk_gib", "9"),
            ],
            [],
        ),
    ],
)
def test_a_resize_changes_only_what_was_asked_for(
    name: str | None, sizes: dict[str, Any], servers: int | None, changes: Any, removed: Any
) -> None:
    assert plan(spec(*TWO), name, Sizes(**sizes), servers) == (changes, removed)


@pytest.mark.parametrize(
    ("name", "sizes", "servers", "sentence"),
    [
        (None, {}, None, "Nothing to resize"),
        ("gpu-1", {"cpus": 1}, None, "Nothing to resize"),
        (None, {"cpus": 2}, None, "name a server; this stack declares gpu-1, gpu-2"),
        ("gpu-9", {"cpus": 2}, None, "there is no server 'gpu-9'"),
        ("gpu-2", {"data_disk_gib": 8}, None, "can only grow"),
        (None, {}, 0, "at least 1"),
        (None, {}, 2, "Nothing to resize"),
    ],
)
def test_a_resize_that_cannot_be_is_refused(
    name: str | None, sizes: dict[str, Any], servers: int | None, sentence: str
) -> None:
    with pytest.raises(SpecError) as caught:
        plan(spec(*TWO), name, Sizes(**sizes), servers)
    assert sentence in str(caught.value)


def test_a_new_server_does_not_take_a_name_in_use() -> None:
    declared = spec({"name": "gpu-2"}, {"name": "node"})
    changes, _ = plan(declared, None, Sizes(), 4)
    names = [value for path, value in changes if path.endswith(".name")]
    assert names == ["node-3", "node-4"]


SERVER = Server(
    name="rented", address="203.0.113.7", user="debian", host_key=PUBLIC,
    private_address="203.0.113.7", instance_id="x", private_key="k",
)  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"id": "debian", "version": "13", "sudo": "yes"}, None),
        ({"id": "ubuntu", "version": "24.04", "sudo": "yes"}, None),
        (
            {"id": "debian", "version": "11", "sudo": "yes"},
            "it runs debian 11; supported: debian 12",
        ),
        ({"id": "arch", "version": "", "sudo": "yes"}, "it runs arch (no version)"),
        ({"id": "debian", "version": "13", "sudo": "no"}, "NOPASSWD:ALL"),
    ],
)
def test_a_rented_server_is_refused_for_a_reason(
    facts: dict[str, str], sentence: str | None
) -> None:
    found = rented.refusal(SERVER, facts)
    assert (found is None) if sentence is None else (found is not None and sentence in found)
