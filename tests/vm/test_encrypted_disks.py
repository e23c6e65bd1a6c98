"""Encrypted disks where there is a kernel of one's own: reboot, stop and start, a blanked scratch.

One machine goes through all of it; every boot costs half a minute.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpuferry import keys
from gpuferry.errors import StepFailed
from gpuferry.nodes.local import disk, machine
from gpuferry.nodes.session import wait_for_ssh
from tests.nodes.test_encryption import CANARY, KEY, make, verdict
from tests.vm.test_kernel import WITH_HEADERS

pytestmark = pytest.mark.slow
DISK = "/dev/disk/by-id/virtio-extra-{}"
VAULT: dict[str, Any] = {"name": "vault", "path": "/vault", "device": DISK.format(1)}
VAULT |= {"scratch": False, "key": KEY}
SCRATCH: dict[str, Any] = {"name": "fast", "path": "/scratch", "device": DISK.format(2)}
SCRATCH |= {"scratch": True, "key": ""}
# Stands for Docker, whose unpacking takes a minute: what its unit is ordered after is what counts.
DOCKER = (
    "cat > /etc/systemd/system/docker.service <<'END'\n[Service]\nType=oneshot\n"
    "RemainAfterExit=yes\nExecStart=/bin/sh -c 'findmnt /vault > /run/docker-saw'\n"
    "[Install]\nWantedBy=multi-user.target\nEND\nsystemctl enable docker.service 2>/dev/null"
)


@pytest.fixture(scope="module")
def node(new_node):
    # The same disk as there: making one takes minutes.
    return new_node("debian-13", "vm", kind="vm", packages=WITH_HEADERS, extra_disks_gib=(1, 1))


def test_a_disk_with_anything_on_it_is_refused(node):
    root = node.run("readlink -f /dev/disk/by-id/* | sort -u; findmnt -no SOURCE /; swapon || true")
    assert "/dev/vd" in root
    node.run(f"mkfs.ext4 -q {DISK.format(1)}")
    with pytest.raises(StepFailed, match="it holds ext4"):
        make(node, VAULT)
    node.run(f"wipefs -qa {DISK.format(1)}")
    with pytest.raises(StepFailed, match="it holds data of a kind that is not known"):
        make(node, VAULT)
    node.run(f"dd if=/dev/zero of={DISK.format(1)} bs=1M count=1 status=none")
    data = node.run("findmnt -no SOURCE /data").strip()
    links = node.run(f"find /dev/disk/by-id -lname '*/{data.rsplit('/')[-1]}'").split()
    for link in links[:1]:
        with pytest.raises(StepFailed, match="not taken: it holds ext4; in use: mounted at /data"):
            make(node, {**VAULT, "device": link})


def test_both_are_made_once_and_hold_ciphertext_only(node):
    node.run(DOCKER)
    volumes = {"encryption_volumes": [VAULT, SCRATCH], "encryption_docker_needs": ["vault"]}
    assert node.play("encryption", **volumes).changed("vm") > 0
    again = node.play("encryption", **volumes)
    assert again.changed("vm") == 0, again.changed_tasks
    found = verdict(node, VAULT, SCRATCH)
    assert found.status == "pass", found
    assert "/vault (luks2, aes-xts-plain64), /scratch (luks2, aes-xts-plain64)" in found.measured
    assert "in clear, as not declared otherwise: /, " in found.evidence
    node.run(f"for at in /vault /scratch; do echo {CANARY} > $at/note; done; sync")
    for number in (1, 2):
        assert node.run(f"grep -acF {CANARY} {DISK.format(number)} || true").strip() == "0"
    assert node.run(f"grep -rlF {KEY} /etc /var /usr/local || true") == ""


def test_after_a_reboot_data_is_there_scratch_is_new_and_docker_waited(node):
    before = node.run(f"blkid -p -s UUID -o value {DISK.format(2)}")
    node.reboot()
    node.run("systemctl is-system-running --wait || true")
    assert node.run("cat /vault/note") == f"{CANARY}\n"
    assert node.run("ls -A /scratch").split() == ["lost+found"]
    assert node.run(f"blkid -p -s UUID -o value {DISK.format(2)}") != before
    assert "/dev/mapper/gpuferry-vault" in node.run("cat /run/docker-saw")
    assert verdict(node, VAULT, SCRATCH).status == "pass"


def test_the_stacks_key_opens_the_disk_and_another_does_not(node):
    test = f"cryptsetup open --test-passphrase --key-file - {DISK.format(1)}"
    assert node.run(f"printf {KEY} | {test} && echo opens") == "opens\n"
    other = keys.volume_key()["key"]
    assert "opens" not in node.run(f"printf {other} | {test} 2>&1 && echo opens || true")


def _size_mib(node):
    return int(node.run("df --output=size -BM /vault | tail -1").strip().rstrip("M"))


def test_it_grows_with_its_disk_at_a_boot_and_keeps_its_data(node):
    """As the provider does it: the machine is stopped, its disk grown, and started again."""
    machine.stop(node.stack, "vm")
    with open(disk.extra_folder(node.stack, "vm") / "1.raw", "r+b") as file:
        file.truncate(2 << 30)
    machine.start(node.stack, "vm")
    wait_for_ssh(node.server, 240)
    node.run("systemctl is-system-running --wait || true")
    assert _size_mib(node) > 1900
    assert node.run("cat /vault/note") == f"{CANARY}\n"
    assert verdict(node, VAULT, SCRATCH).status == "pass"


def test_a_volume_below_its_disk_is_found_and_grown_while_it_is_in_use(node):
    """As after a cloud's disk was grown under a running server."""
    mapping = "/dev/mapper/gpuferry-vault"
    node.run(
        f"umount /vault; e2fsck -fp {mapping} || true; resize2fs {mapping} 900M 2>&1\n"
        f"printf {KEY} | cryptsetup resize --key-file - --size $((1000 * 2048)) gpuferry-vault\n"
        f'mount {mapping} /vault; test "$(blockdev --getsize64 {mapping})" = 1048576000'
    )
    found = verdict(node, VAULT, SCRATCH)
    assert found.status == "fail"
    assert "but its disk is " in found.measured
    node.run("sleep 3600 < /vault/note > /dev/null 2>&1 &")
    volumes = {"encryption_volumes": [VAULT, SCRATCH], "encryption_docker_needs": ["vault"]}
    assert node.play("encryption", check_only=True, **volumes).changed("vm") > 0
    assert _size_mib(node) < 1000
    assert node.play("encryption", **volumes).changed("vm") > 0
    assert _size_mib(node) > 1900
    assert node.play("encryption", **volumes).changed("vm") == 0
    assert node.run("cat /vault/note; pkill -x sleep") == f"{CANARY}\n"
    assert verdict(node, VAULT, SCRATCH).status == "pass"


def test_a_volume_without_its_superblocks_gets_no_new_file_system(node):
    """Neither at a boot nor by the role; the rest of its data can still be saved."""
    mapping, saved = "/dev/mapper/gpuferry-vault", "/root/superblocks"
    volumes = {"encryption_volumes": [VAULT, SCRATCH], "encryption_docker_needs": ["vault"]}
    node.run(
        f"umount /vault; dd if={mapping} of={saved} bs=1M count=1 status=none\n"
        f"dd if=/dev/zero of={mapping} bs=1M count=1 status=none; sync"
    )
    with pytest.raises(StepFailed, match="mount"):
        node.play("encryption", **volumes)
    assert node.run(f"grep -acF {CANARY} {mapping}").strip() != "0"
    node.run(f"dd if={saved} of={mapping} bs=1M conv=notrunc status=none; sync")
    node.play("encryption", **volumes)
    assert node.run("cat /vault/note") == f"{CANARY}\n"


def test_after_a_stop_that_blanks_disks_scratch_is_rebuilt_and_docker_stays_down(node):
    """As clouds do with local disks. The kept disk is gone, too: the server still boots."""
    machine.stop(node.stack, "vm")
    for number in (1, 2):
        blank = disk.extra_folder(node.stack, "vm") / f"{number}.raw"
        blank.unlink()
        with open(blank, "wb") as file:
            file.truncate(1 << 30)
    machine.start(node.stack, "vm")
    wait_for_ssh(node.server, 240)
    node.run("systemctl is-system-running --wait || true")
    found = verdict(node, VAULT, SCRATCH)
    assert (found.status, found.measured) == ("fail", "/vault: not mounted"), found
    assert node.run("ls -A /scratch").split() == ["lost+found"]
    assert node.run("systemctl is-active docker || true").strip() == "inactive"
    assert node.run("ls -A /vault") == ""
