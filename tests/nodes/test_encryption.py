"""Encrypted files on a real node without a disk of its own: only ciphertext is on its disk."""

from __future__ import annotations

from typing import Any

import pytest

from gpuferry import keys
from gpuferry.checking import run_checks
from gpuferry.errors import StepFailed
from gpuferry.verdict import Verdict
from tests.support.node import Node, NodeMaker

CANARY = "canary-at-rest-77"
KEY = keys.volume_key()["key"]
VAULT = {"name": "vault", "path": "/vault", "device": "", "scratch": False, "key": KEY}


def verdict(node: Node, *volumes: dict[str, Any]) -> Verdict:
    known = [{k: v for k, v in volume.items() if k != "key"} for volume in volumes]
    expected = {"hostname": "node", "user": node.server.user, "roles": ["encryption"]}
    found = run_checks(
        [node.server],
        {node.server.name: {**expected, "kind": "container", "volumes": known}},
        select=["encryption"],
    )
    return next(v for v in found if v.id == "encryption.volumes")


def make(node: Node, *volumes: dict[str, Any], **more: Any) -> int:
    played = node.play("encryption", encryption_volumes=list(volumes), **more)
    return played.changed(node.server.name)


@pytest.fixture(scope="module")
def node(new_node: NodeMaker) -> Node:
    return new_node()


def test_a_disk_is_refused_before_anything_is_touched(node: Node) -> None:
    with pytest.raises(StepFailed, match="a container has no disks of its own") as refused:
        make(node, {**VAULT, "device": "/dev/disk/by-id/virtio-extra-1"})
    assert KEY not in str(refused.value)
    node.run("mkdir /vault; touch /vault/precious")
    with pytest.raises(StepFailed, match="has files in it"):
        make(node, VAULT)
    node.run("rm -r /vault; test ! -e /data/.gpuferry-vault")
    assert verdict(node, VAULT).status == "fail"


def test_it_is_made_once(node: Node) -> None:
    assert make(node, VAULT, check_only=True) > 0
    node.run("test ! -e /data/.gpuferry-vault")
    assert make(node, VAULT) > 0
    assert make(node, VAULT) == 0
    found = verdict(node, VAULT)
    assert (found.status, found.measured) == ("pass", "/vault (gocryptfs)"), found
    assert "in clear, as not declared otherwise: /, /data" in found.evidence


def test_one_that_somebody_unmounted_is_opened_again(node: Node) -> None:
    node.run("touch /vault/kept; umount /vault; test ! -e /vault/kept")
    assert verdict(node, VAULT).status == "fail"
    assert make(node, VAULT) > 0
    node.run("test -e /vault/kept; rm /vault/kept")
    assert make(node, VAULT) == 0


def raw_hits(node: Node, text: str) -> str:
    return node.run(f"grep -rlaF {text} /data/.gpuferry-vault /etc /var/lib/gpuferry || true")


def test_only_ciphertext_is_on_the_disk_and_the_key_nowhere(node: Node) -> None:
    node.run(f"echo {CANARY} > /vault/{CANARY}; sync; grep -q {CANARY} /vault/{CANARY}")
    assert raw_hits(node, CANARY) == ""
    assert node.run(f"find /data -name '*{CANARY}*'") == ""
    assert raw_hits(node, KEY) == ""
    assert node.run(f"journalctl --no-pager | grep -F {KEY} || true") == ""
    assert "gocryptfs.conf" in node.run("ls /data/.gpuferry-vault/files")


def test_another_users_process_can_use_it(node: Node) -> None:
    node.run(
        "install -d -o 1000 /vault/job; setpriv --reuid 1000 --clear-groups touch /vault/job/x"
    )


def test_it_is_open_again_after_a_restart(node: Node) -> None:
    node.restart()
    node.run("systemctl is-system-running --wait || true")
    assert node.run(f"cat /vault/{CANARY}") == f"{CANARY}\n"
    assert verdict(node, VAULT).status == "pass"
    assert make(node, VAULT) == 0


def test_a_wrong_key_opens_nothing(node: Node) -> None:
    node.run('systemctl stop gpuferry-volume@vault; test -z "$(ls -A /vault)"')
    assert "not mounted" in verdict(node, VAULT).measured
    wrong = keys.volume_key()["key"]
    said = node.run(f"echo {wrong} | gocryptfs -q /data/.gpuferry-vault/files /vault 2>&1 || true")
    assert "Password incorrect" in said
    assert make(node, VAULT) > 0
    assert node.run(f"cat /vault/{CANARY}") == f"{CANARY}\n"


def test_a_new_system_finds_its_data_again_by_the_key_of_the_stack(node: Node) -> None:
    """As after a rebuild: /data stays, all else is new."""
    node.run(
        "systemctl disable --now gpuferry-volume@vault 2>&1\n"
        "rm -r /etc/gpuferry/volumes.json /var/lib/gpuferry/volume-keys /usr/local/lib/gpuferry"
        " /etc/systemd/system/gpuferry-volume@.service"
    )
    assert make(node, VAULT) > 0
    assert node.run(f"cat /vault/{CANARY}") == f"{CANARY}\n"
    assert verdict(node, VAULT).status == "pass"
