"""The rules over the spec: each is kept, broken, or says that it could not be evaluated."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpuferry.cli import options
from gpuferry.engine.project import Project
from gpuferry.errors import PrerequisiteMissing, SpecError, StepFailed
from gpuferry.operate import deployment
from gpuferry.paths import POLICY_CONFIG
from gpuferry.spec import parse_spec, policy
from policy import rulings

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
        ("firewall.ssh_from", {"firewall": {"ssh_from": ["10.0.0.0/8"]}}, "kept", "own networks"),
        ("firewall.ssh_from", {"firewall": {"ssh_from": ["fc00::/7"]}}, "kept", "own networks"),
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
        ({"firewall": {"ssh_from": ["0.0.0.0/1"]}}, "or much of it"),
        ({"firewall": {"ssh_from": ["64.0.0.0/8", "65.0.0.0/8"]}}, "64.0.0.0/8 . 65.0.0.0/8 lets"),
        ({"firewall": {"ssh_from": ["2000::/3"]}}, "or much of it"),
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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"gpucap": {"max_gpus": 2}}', "'gpucap' is no rule; accepted: ssh-not-open-to-the-world"),
        ("[]", "holds no JSON object of rules"),
        ("{", "is no JSON"),
    ],
)
def test_a_slip_in_the_packs_configuration_is_named(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "team.json").write_text(text)
    with pytest.raises(SpecError, match=says):
        options.set_policy_config(tmp_path / "team.json")


def test_every_rule_of_the_pack_can_be_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(POLICY_CONFIG, "")
    names = ["all", rulings.EVERY_RULE_EVALUATED, *(name for name, *_ in rulings.RULES)]
    (tmp_path / "team.json").write_text(json.dumps(dict.fromkeys(names, "advisory")))
    options.set_policy_config(tmp_path / "team.json")
    assert os.environ[POLICY_CONFIG] == str(tmp_path / "team.json")


@pytest.fixture
def protected(tmp_path: Path) -> Project:
    (tmp_path / "Pulumi.yaml").write_text("name: gpuferry\nruntime: python\n")
    (tmp_path / "Pulumi.kept.yaml").write_text(
        "config:\n  gpuferry:servers: [{name: gpu-1}]\n  gpuferry:policy: {protect_data: true}\n"
    )
    return Project(tmp_path, "kept")


def test_down_refuses_where_data_is_protected_whatever_is_said(protected: Project) -> None:
    with pytest.raises(StepFailed, match=r"policy.protect_data keeps stack kept: set it to false"):
        deployment.down(protected, yes=True, discard_retained=True, as_json=False, take_over=False)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("old-disk", "old's disk"),
        ("data-bucket", "data, the bucket"),
        ("gpu-1-vault-volume-key", "gpu-1-vault, the key of an encrypted volume"),
        ("data-data-key", "data, the key of its sealed data"),
    ],
)
def test_up_refuses_to_lose_what_is_protected(
    protected: Project, name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    spec = protected.spec()
    known = deployment.Known(urns={name: f"urn::{name}", "gpu-1-disk": "urn::1"}, pending=False)
    with pytest.raises(SpecError, match=r"policy\.protect_data keeps"):
        deployment.confirm_losses(protected, known, spec, yes=True)
    free = spec.model_copy(update={"policy": policy.PolicySpec()})
    deployment.confirm_losses(protected, known, free, yes=True)
    with pytest.raises(PrerequisiteMissing, match=said):
        deployment.confirm_losses(protected, known, free, yes=False)
