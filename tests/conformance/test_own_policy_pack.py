"""The pack in `policy/`, started by the real engine on programs that break its rules."""

import json
from typing import Any

import pytest

from gpuferry.paths import REPOSITORY

from .engine import Result, Stack

PACK = REPOSITORY / "policy"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
FIREWALL = {"ssh_from": ["192.0.2.0/24"], "ssh_open_to_the_world": False}
SERVERS = {"gpu-1": {"gpus": 2, "price_per_hour": 1.5, "labels": {"owner": "ada"}}}
MADE = """local.Command("machine", create="echo made >> log")"""

pytestmark = pytest.mark.standin_only("it takes packs in an environment of their own only")


def judged(stack: Stack, program: str, config: dict[str, Any] | None = None) -> Result:
    """Update under the pack; the outcome is for the test to judge."""
    stack.program(program)
    file = stack.root / "team.json"
    file.write_text(json.dumps(config or {}))
    options = ("--policy-pack", str(PACK), "--policy-pack-config", str(file))
    return stack.run("up", "--yes", "--skip-preview", *options)


def declaration(firewall: dict[str, Any] = FIREWALL, servers: dict[str, Any] = SERVERS) -> str:
    """The first lines of gpuferry's own program, as far as the pack sees them."""
    return f"""
    declared = {{"firewall": {firewall!r}, "servers": {servers!r}}}
    first = pulumi.ComponentResource("gpuferry:index:Declaration", "declared", declared)
    {MADE}
    """


@pytest.mark.parametrize(
    ("program", "config", "policy", "says"),
    [
        (
            declaration({"ssh_from": ["0.0.0.0/1", "128.0.0.0/1"], "ssh_open_to_the_world": False}),
            {},
            "ssh-not-open-to-the-world",
            "lets the whole internet, or much of it, reach SSH",
        ),
        (declaration(), {"gpu-cap": {"max_gpus": 1}}, "gpu-cap", "but the servers declare 2"),
        (
            declaration(),
            {"price-cap": {"max_price_per_hour": 1}},
            "price-cap",
            "1 an hour, but the servers cost 1.5",
        ),
        (
            declaration(),
            {"labels-required": {"labels": ["owner", "team"]}},
            "labels-required",
            "gpu-1 lacks the labels team",
        ),
        (
            declaration(servers={"gpu-1": {"gpus": 0, "labels": {}, "host_key": ""}}),
            {},
            "host-key-pinned",
            "servers[].ssh.host_key: none for gpu-1",
        ),
        (
            declaration() + """local.Command("gpu-1-disk", create="echo made >> log")""",
            {"data-protected": {"required": True}},
            "data-protected",
            "gpu-1-disk holds data and is not protected",
        ),
        (
            """pulumi.ComponentResource("any:index:Bucket", "shared", {"acl": "public-read"})""",
            {},
            "buckets-private",
            "others may read shared (public-read)",
        ),
        (
            """remote.Command("r", create="true", connection={"host": "127.0.0.1", "port": 9})""",
            {},
            "host-key-pinned",
            "connection.hostKey: none for r",
        ),
        # A slip in the configuration must not leave a rule without its cap.
        (declaration(), {"gpu-cap": {"max_gpu": 1}}, "gpu-cap", "unknown key 'max_gpu'"),
    ],
)
def test_a_broken_rule_stops_the_update_before_anything_is_made(
    stack: Stack, program: str, config: dict[str, Any], policy: str, says: str
) -> None:
    result = judged(stack, program, config)
    assert result.exit_code != 0
    assert f"[mandatory]  {policy}" in result.text
    assert says in result.text
    assert "gpu-1-disk" not in [c["urn"].rsplit("::", 1)[1] for c in stack.commands()]


def test_a_stack_that_keeps_all_rules_is_made(stack: Stack) -> None:
    config = {
        "gpu-cap": {"max_gpus": 2},
        "price-cap": {"max_price_per_hour": 1.5},
        "labels-required": {"labels": ["owner"]},
        "data-protected": {"required": True},
    }
    program = (
        declaration()
        + """
    kept = pulumi.ResourceOptions(protect=True)
    local.Command("gpu-1-disk", create="echo disk >> log", opts=kept)
    pulumi.ComponentResource("any:index:Bucket", "own", {"acl": "private"})
    """
    )
    result = judged(stack, program, config)
    assert result.exit_code == 0, result.text
    assert sorted(stack.log()) == ["disk", "made"]
    assert "could not be evaluated" not in result.text
    assert stack.run("destroy", "--yes", "--skip-preview").exit_code != 0  # protected


def test_a_rule_that_could_not_be_evaluated_says_so_and_can_be_made_to_stop(stack: Stack) -> None:
    unpriced = declaration(servers={"gpu-1": {"gpus": 2, "labels": {}}})
    config: dict[str, Any] = {"price-cap": {"max_price_per_hour": 1}}
    result = judged(stack, unpriced, config)
    assert result.exit_code == 0
    assert (
        "price-cap could not be evaluated: no price_per_hour is declared for gpu-1" in result.text
    )
    assert judged(stack, unpriced, config | {"every-rule-evaluated": "mandatory"}).exit_code != 0
    result = judged(stack, MADE)
    assert result.exit_code == 0
    assert "SSH, GPUs, prices and labels could not be evaluated" in result.text


def test_a_host_key_that_a_preview_cannot_know_is_not_taken_for_one(stack: Stack) -> None:
    stack.program("""
        key = local.Command("key", create="true").stdout
        connection = {"host": "127.0.0.1", "port": 9, "hostKey": key, "dialErrorLimit": 1}
        remote.Command("r", create="true", connection=connection)
    """)
    result = stack.run("preview", "--policy-pack", str(PACK))
    assert result.exit_code == 0
    assert "can't run policy 'host-key-pinned'" in result.text
    result = stack.run("up", "--yes", "--skip-preview", "--policy-pack", str(PACK))
    assert result.exit_code != 0
    assert "connection.hostKey: none for r" in result.text
