"""Secrets on real nodes: files in memory, there again after a restart, and nowhere else."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from gpuferry.checking import run_checks
from gpuferry.errors import StepFailed
from gpuferry.verdict import Verdict
from tests.support.node import Node, NodeMaker

CANARY = "canary-0b5d7c1e9a"
TOKEN = {"name": "hf-token", "value": f"{CANARY}\nsecond line\n", "uid": 0}
KEY = {"name": "wandb", "value": f"{CANARY}-w", "uid": 1234}
PROGRAM = "python3 -I -B /usr/local/lib/gpuferry/secrets.py"
# systemd-run itself expands what has one dollar sign.
READ = 'cat "$$CREDENTIALS_DIRECTORY/hf-token"'
FOLDERS = "/var /etc /root /home /usr/local /opt"


def verdict(node: Node, *secrets: dict[str, Any]) -> Verdict:
    named = [{"name": s["name"], "uid": s["uid"]} for s in secrets]
    expected = {"hostname": "node", "user": node.server.user, "roles": ["secrets"]}
    found = run_checks(
        [node.server],
        {node.server.name: {**expected, "kind": "container", "secrets": named}},
        select=["secrets"],
    )
    return next(v for v in found if v.id == "secrets.delivered")


def deliver(node: Node, *secrets: dict[str, Any], **more: Any) -> int:
    return node.play("secrets", secrets_files=list(secrets), **more).changed(node.server.name)


def assert_nowhere(node: Node) -> None:
    """Neither in a file on a disk, nor in the journal, nor in a process list."""
    # The shell that looks is not looked at: its script comes by stdin.
    found = node.run(
        f"grep -rlaF {CANARY} {FOLDERS} || true; journalctl --no-pager | grep -F {CANARY} || true\n"
        f"cat /proc/[0-9]*/environ 2>/dev/null | grep -aF {CANARY} || true"
    )
    assert found == ""


@pytest.fixture(scope="module")
def node(image: str, new_node: NodeMaker) -> Node:
    return new_node(image)


def test_without_a_secret_nothing_is_done(node: Node) -> None:
    assert deliver(node) == 0
    node.run("test ! -e /run/gpuferry/secrets -a ! -e /var/lib/gpuferry/secrets")
    assert verdict(node, TOKEN).status == "fail"


def test_they_are_delivered_once_as_files_in_memory(node: Node) -> None:
    assert deliver(node, TOKEN, KEY, check_only=True) > 0
    node.run("test ! -e /run/gpuferry/secrets")
    assert deliver(node, TOKEN, KEY) > 0
    assert deliver(node, TOKEN, KEY) == 0
    shown = node.run("stat -c '%n %a %u %g' /run/gpuferry/secrets/*; findmnt -nT /run/gpuferry")
    assert "/run/gpuferry/secrets/hf-token 400 0 0\n" in shown
    assert "/run/gpuferry/secrets/wandb 400 1234 0\n" in shown
    assert "tmpfs" in shown
    assert node.run("cat /run/gpuferry/secrets/hf-token") == TOKEN["value"]
    assert verdict(node, TOKEN, KEY).status == "pass"


def test_a_value_that_looks_like_a_template_is_delivered_as_it_is(
    node: Node, tmp_path: Path
) -> None:
    """Taken for one, it would run a program on this machine."""
    mark = tmp_path / "was-run"
    odd = f"{{{{ lookup('pipe', 'touch {mark}') }}}} {{% if %}} {{# $(id) ${{HOME}} %s \\"
    deliver(node, TOKEN, {**KEY, "value": odd})
    assert node.run("cat /run/gpuferry/secrets/wandb") == odd
    assert not mark.exists()
    deliver(node, TOKEN, KEY)


def test_only_the_owner_can_read_its_own(node: Node) -> None:
    def can_read(uid: int, name: str) -> bool:
        path = f"/run/gpuferry/secrets/{name}"
        read = f"setpriv --reuid {uid} --clear-groups cat {path}"
        return node.run(f"{read} >/dev/null 2>&1 && echo yes || echo no") == "yes\n"

    assert can_read(1234, "wandb")
    assert not can_read(1234, "hf-token")
    assert not can_read(65534, "wandb")


def test_a_service_of_another_user_gets_one_as_a_credential(node: Node) -> None:
    """As docs/secrets.md hands one over."""
    load = "-p LoadCredential=hf-token:/run/gpuferry/secrets/hf-token -p DynamicUser=yes"
    assert node.run(f"systemd-run -q --pipe --collect {load} sh -c '{READ}'") == TOKEN["value"]


def test_no_value_is_anywhere_else_on_the_server(node: Node) -> None:
    assert_nowhere(node)


def test_they_are_there_after_a_restart_without_the_controller(node: Node) -> None:
    node.restart()
    node.run("systemctl is-system-running --wait || true; systemctl is-active gpuferry-secrets")
    assert node.run("cat /run/gpuferry/secrets/hf-token") == TOKEN["value"]
    assert verdict(node, TOKEN, KEY).status == "pass"
    assert deliver(node, TOKEN, KEY) == 0


def test_the_copy_is_worth_nothing_without_the_servers_key(node: Node) -> None:
    node.run("mv /var/lib/systemd/credential.secret /root/kept")
    try:
        said = json.loads(node.run(f"{PROGRAM} verify"))["secrets"]
        assert all(text.startswith("systemd-creds decrypt") for text in said.values()), said
        assert verdict(node, TOKEN, KEY).status == "fail"
    finally:
        node.run("mv /root/kept /var/lib/systemd/credential.secret")
    assert verdict(node, TOKEN, KEY).status == "pass"


def test_a_hand_edit_is_found_and_mended(node: Node) -> None:
    node.run("echo other > /run/gpuferry/secrets/wandb")
    assert "another value" in verdict(node, TOKEN, KEY).measured
    assert deliver(node, TOKEN, KEY) == 1
    assert verdict(node, TOKEN, KEY).status == "pass"


def test_a_rotated_value_replaces_the_old_one_and_a_removed_one_is_gone(node: Node) -> None:
    new = {**TOKEN, "value": f"{CANARY}-rotated"}
    assert deliver(node, new) == 1
    assert node.run("cat /run/gpuferry/secrets/hf-token") == new["value"]
    assert node.run("ls /run/gpuferry/secrets /var/lib/gpuferry/secrets").split() == [
        "/run/gpuferry/secrets:", "hf-token", "/var/lib/gpuferry/secrets:", "hf-token.cred",
    ]  # fmt: skip
    assert "wandb: missing" in verdict(node, new, KEY).measured
    assert deliver(node) == 1
    assert (
        node.run("ls /run/gpuferry/secrets /var/lib/gpuferry/secrets | grep -v : || true").strip()
        == ""
    )
    assert_nowhere(node)


def test_where_run_is_no_memory_it_is_refused_without_the_value(node: Node) -> None:
    node.run("mkdir -p /root/disk /run/gpuferry; mount --bind /root/disk /run/gpuferry")
    try:
        with pytest.raises(StepFailed) as refused:
            deliver(node, TOKEN)
    finally:
        node.run("umount /run/gpuferry")
    assert "not in memory" in str(refused.value)
    assert CANARY not in str(refused.value)
    assert base64.b64encode(CANARY.encode()).decode() not in str(refused.value)
    assert_nowhere(node)
