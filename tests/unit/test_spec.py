"""The spec accepts what can be had and explains everything else in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuferry import keys
from gpuferry.errors import SpecError
from gpuferry.spec import parse_spec
from gpuferry.spec.file import load_spec

PUBLIC = keys.ssh_key_pair("anna")["public"]
SERVER: dict[str, Any] = {"name": "gpu-1"}
SSH: dict[str, Any] = {
    "address": "203.0.113.7",
    "user": "debian",
    "host_key": PUBLIC,
    "key_file": "~/.ssh/id",
}


def spec(**config: Any) -> Any:
    return parse_spec({f"gpuferry:{key}": value for key, value in config.items()}, "Pulumi.x.yaml")


def server(**fields: Any) -> dict[str, Any]:
    return {"servers": [{**SERVER, **fields}]}


REFUSED = [
    ({}, "gpuferry:servers: required, but missing."),
    ({"servers": []}, "gpuferry:servers: list should have at least 1 item"),
    ({"servers": "gpu-1"}, "gpuferry:servers: input should be a valid list (got 'gpu-1')"),
    ({"server": [SERVER]}, "gpuferry:server: unknown key; did you mean 'servers'?"),
    ({"servers": [SERVER], "zzz": 1}, "gpuferry:zzz: unknown key; accepted: agent, docker, driver"),
    (server(cpu=2), "gpuferry:servers[0].cpu: unknown key; did you mean 'cpus'?"),
    (
        server(gpu={"model": "L4", "cout": 1}),
        "servers[0].gpu.cout: unknown key; did you mean 'count'?",
    ),
    (
        server(gpu={"model": "A100-80", "count": 1, "mig": ["half"]}),
        "gpu.mig[0]: 'half' is no MIG profile",
    ),
    (
        server(gpu={"model": "A100-80", "count": 1, "mig": {0: ["half"]}}),
        "gpu.mig[0][0]: 'half' is no MIG profile",
    ),
    (
        server(gpu={"model": "A100-80", "count": 1, "mig": "half"}),
        "gpu.mig: input should be a valid list (got 'half')",
    ),
    (
        server(gpu={"model": "A100-80", "count": 2, "mig": {2: ["7g.80gb"]}}),
        "mig names GPU 2; with count 2 the indices are 0 to 1",
    ),
    (server(cpus="many"), "gpuferry:servers[0].cpus: input should be a valid number"),
    (server(cpus=0), "gpuferry:servers[0].cpus: input should be greater than or equal to 0.5"),
    (server(data_disk_gib=0), "data_disk_gib: input should be greater than or equal to 1 (got 0)"),
    (server(image="ubuntu"), "servers[0].image: 'ubuntu' is not accepted; accepted: 'debian-13'"),
    (server(kind="vm", cpus=1.5), "servers[0].cpus: 1.5, but a vm has whole CPUs"),
    (server(kind="vm", memory_gib=0.5), "memory_gib: 0.5, but a vm needs at least 1 GiB"),
    (server(kind="vm", extra_disks_gib=[0]), "extra_disks_gib[0]: input should be greater"),
    (server(secure_boot=True), "servers[0].secure_boot: only for kind: vm"),
    (server(extra_disks_gib=[1]), "servers[0].extra_disks_gib: only for kind: vm"),
    (
        {
            "provider": "ssh",
            "firewall": {"ssh_from": ["203.0.113.7/32"]},
            **server(ssh=SSH, kind="vm"),
        },
        "servers[0].kind: 'vm' is only for provider local",
    ),
    (server(name="GPU_1"), "'GPU_1' is not a usable name; accepted: lower-case letters"),
    (server(name="gpu-"), "'gpu-' is not a usable name"),
    (server(name="servers"), "'servers' has a meaning of its own in Ansible"),
    (server(open_ports=[{"port": 22}]), "open_ports[0]: 22/tcp is SSH; say who may reach it"),
    (
        {"servers": [SERVER], "mirrors": {"debian": "http://m"}},
        "give both debian and debian_security, or neither",
    ),
    (
        {"servers": [SERVER], "mirrors": {"extra_ca_files": ["ca.pem"]}},
        "extra_ca_files[0]: 'ca.pem' is a relative path",
    ),
    (
        {"servers": [SERVER], "users": [{"name": "anna", "public_keys": [f"{PUBLIC}\n{PUBLIC}"]}]},
        "is not an OpenSSH public key",
    ),
    (server(name="a" * 41), "is not a usable name"),
    (server(gpu="L4"), "servers[0].gpu: not a single value, but a mapping of count, mig, model"),
    (
        server(driver={"branch": "580"}),
        "servers[0]: driver: the server declares no gpu, so nothing would be installed",
    ),
    ({"servers": [SERVER, SERVER]}, "servers: the name 'gpu-1' is used 2 times"),
    (
        server(open_ports=[{"port": 0}]),
        "open_ports[0].port: input should be greater than or equal to 1",
    ),
    (server(open_ports=[{"port": 70000}]), "input should be less than or equal to 65535"),
    (server(open_ports=[{"port": 80}, {"port": 80}]), "port 80/tcp is declared 2 times"),
    (
        server(open_ports=[{"port": 80, "from": ["x"]}]),
        "open_ports[0].from[0]: 'x' is not a network",
    ),
    (
        server(open_ports=[{"port": 80, "protocol": "sctp"}]),
        "'sctp' is not accepted; accepted: 'tcp' or 'udp'",
    ),
    ({"servers": [SERVER], "firewall": {"ssh_from": ["10.0.0.1/8"]}}, "did you mean 10.0.0.0/8?"),
    (
        {"servers": [SERVER], "firewall": {"ssh_from": ["10.0.0.0/33"]}},
        "accepted: an IPv4 or IPv6 network",
    ),
    (
        {"servers": [SERVER], "firewall": {"ssh_from": ["0.0.0.0/0"]}},
        "ssh_open_to_the_world: true if you mean it",
    ),
    (
        {"servers": [SERVER], "firewall": {"ssh_from": ["::/0"]}},
        "lets the whole internet, or much of it, reach SSH",
    ),
    (
        {"servers": [SERVER], "firewall": {"ssh_from": ["0.0.0.0/1", "128.0.0.0/1"]}},
        "0.0.0.0/1 + 128.0.0.0/1 lets the whole internet, or much of it, reach SSH",
    ),
    ({"servers": [SERVER], "object_stores": [{"name": "Data"}]}, "'Data' is not a bucket name"),
    (
        {"servers": [SERVER], "object_stores": [{"name": "10.0.0.1"}]},
        "not shaped like an IP address",
    ),
    ({"servers": [SERVER], "object_stores": [{"name": "a..b"}]}, "is not a bucket name"),
    (
        {
            "servers": [SERVER],
            "object_stores": [{"name": "abc", "server_side_encryption": True}],
        },
        r"object_stores[0].server_side_encryption: the local S3 server keeps objects in clear",
    ),
    (
        {"servers": [SERVER], "object_stores": [{"name": "abc"}, {"name": "abc"}]},
        "'abc' is used 2 times",
    ),
    (
        {
            "servers": [SERVER],
            "object_stores": [{"name": "abc", "versioning": False, "retention_days": 1}],
        },
        "retention_days needs versioning: true",
    ),
    ({"servers": [SERVER], "users": [{"name": "root", "public_keys": [PUBLIC]}]}, "and not root"),
    ({"servers": [SERVER], "users": [{"name": "anna", "public_keys": []}]}, "at least 1 item"),
    (
        {"servers": [SERVER], "users": [{"name": "anna", "public_keys": ["AAAA"]}]},
        "is not an OpenSSH public key",
    ),
    (
        {"servers": [SERVER], "users": [{"name": "anna", "public_keys": ["ssh-ed25519 AAAA"]}]},
        "is damaged (type does not match)",
    ),
    (
        {"servers": [SERVER], "users": [{"name": "anna", "public_keys": ["ssh-ed25519 !!"]}]},
        "is damaged (not base64)",
    ),
    ({"servers": [SERVER], "mirrors": {"debian": "ftp://x"}}, "gpuferry:mirrors.debian"),
    ({"provider": "gcp", "servers": [SERVER]}, "'gcp' is not accepted; accepted: 'local' or 'ssh'"),
    ({"provider": "ssh", "servers": [SERVER]}, "servers[0].ssh: required with provider ssh"),
    (server(ssh=SSH), "servers[0].ssh: only for provider ssh; this stack uses local"),
    ({"provider": "ssh", **server(ssh=SSH)}, "firewall.ssh_from: name the networks"),
    ({"provider": "ssh", **server(ssh={**SSH, "user": "root"})}, "servers[0].ssh.user"),
    (
        {"provider": "ssh", **server(ssh={**SSH, "private_key": "x"})},
        "exactly one of key_file and private_key",
    ),
    (
        {"provider": "ssh", **server(ssh={**SSH, "host_key": "ssh-rsa AAAAB3NzaC1yc2E="})},
        "only an ed25519 host key",
    ),
    (
        {
            "provider": "ssh",
            **server(ssh=SSH),
            "firewall": {"ssh_from": ["10.0.0.0/8"]},
            "object_stores": [{"name": "abc"}],
        },
        "the provider ssh has no object store",
    ),
]


@pytest.mark.parametrize(("config", "sentence"), REFUSED)
def test_what_cannot_be_had_is_refused_in_a_sentence(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(**config)
    message = str(caught.value)
    assert sentence in message
    assert message.startswith("Pulumi.x.yaml: gpuferry:")
    assert "\n" not in message
    assert message[-1] in ".?)"


def test_one_problem_is_told_and_the_others_counted() -> None:
    with pytest.raises(SpecError, match=r"\(2 more problems after this one\.\)"):
        spec(**server(cpus="x", memory_gib="y", image="z"))


def test_a_private_key_is_never_repeated_in_an_error() -> None:
    with pytest.raises(SpecError) as caught:
        spec(
            provider="ssh", **server(ssh={**SSH, "key_file": None, "private_key": {"a": "CANARY"}})
        )
    assert "CANARY" not in str(caught.value)


ACCEPTED: list[dict[str, Any]] = [
    server(),
    server(open_ports=[{"port": 80}, {"port": 80, "protocol": "udp"}]),
    server(open_ports=[{"port": 8888, "from": ["10.0.0.0/8", "2001:db8::/32"]}]),
    {"servers": [SERVER], "firewall": {"ssh_from": ["0.0.0.0/0"], "ssh_open_to_the_world": True}},
    {"servers": [SERVER], "firewall": {"ssh_from": ["9.0.0.0/8"]}},
    {"servers": [SERVER], "object_stores": [{"name": "my.data-1", "retention_days": 30}]},
    {"servers": [SERVER], "users": [{"name": "anna", "public_keys": [PUBLIC], "sudo": True}]},
    {"provider": "ssh", **server(ssh=SSH), "firewall": {"ssh_from": ["203.0.113.0/24"]}},
]


@pytest.mark.parametrize("config", ACCEPTED)
def test_what_can_be_had_is_accepted(config: dict[str, Any]) -> None:
    assert spec(**config).servers[0].name == "gpu-1"


def test_values_may_be_json_as_pulumi_hands_them_on() -> None:
    assert spec(servers=json.dumps([SERVER]), provider="local").servers[0].name == "gpu-1"


def test_an_encrypted_value_is_left_to_the_engine() -> None:
    ssh = {**SSH, "private_key": {"secure": "v1:abc"}}
    del ssh["key_file"]
    found = spec(provider="ssh", **server(ssh=ssh), firewall={"ssh_from": ["10.0.0.0/8"]})
    assert found.servers[0].ssh.private_key is not None


def test_a_private_key_in_clear_is_refused_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    ssh = {**SSH, "private_key": "CANARY"}
    path.write_text(json.dumps({"config": {"gpuferry:servers": [{"name": "a", "ssh": ssh}]}}))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert "stands there in clear" in str(caught.value)
    assert "CANARY" not in str(caught.value)


def test_a_key_without_namespace_is_named() -> None:
    with pytest.raises(SpecError, match="write gpuferry:servers"):
        parse_spec({"servers": []})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "no such stack file"),
        ("config: [", "line 1: not valid YAML"),
        ("- a", "a mapping `config:`"),
        ("config: 3", "a mapping `config:`"),
        ("config: &c\n  gpuferry:servers: *c\n", "refers to itself"),
        ("config:\n  a:b: 1\n  a:b: 2\n", "line 3: not valid YAML (the key 'a:b' is given twice)"),
    ],
)
def test_a_stack_file_that_cannot_be_read_is_named(
    tmp_path: Path, text: str | None, sentence: str
) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value).startswith("Pulumi.x.yaml")
    assert sentence in str(caught.value)


def test_the_default_stack_is_valid() -> None:
    from gpuferry.paths import REPOSITORY

    assert load_spec(REPOSITORY / "Pulumi.local.yaml").provider == "local"
