"""What only a kernel of its own can show: modules, secure boot, encrypted disks.

One machine goes through all of it, in this order; every boot costs half a minute.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from gpuferry.nodes.local.docker import docker

DKMS = Path(__file__).parent / "dkms"
# Baked into the disk, since unpacking a compiler or a kernel under emulation takes minutes.
TOOLS = ["dkms", "gcc", "make", "libc6-dev", "cryptsetup", "systemd-cryptsetup"]
WITH_HEADERS = [*TOOLS, "linux-headers-cloud-amd64"]


@pytest.fixture(scope="module")
def node(new_node):
    return new_node("debian-13", "vm", kind="vm", packages=WITH_HEADERS, extra_disks_gib=(1, 1))


def loads(node) -> str:
    """What modprobe says about the module; empty when it is loaded."""
    return node.run("modprobe ferrytest 2>&1 || true").strip()


def build_module(node) -> None:
    """Build and install it for the running kernel."""
    for path in DKMS.iterdir():
        target = f"/usr/src/ferrytest-1.0/{path.name}"
        node.run(
            f"mkdir -p /usr/src/ferrytest-1.0; printf %s {shlex.quote(path.read_text())} > {target}"
        )
    node.run("dkms install -m ferrytest -v 1.0", timeout_seconds=300)


def mokutil(node) -> str:
    return node.run("mokutil --sb-state 2>&1 || true")


def test_it_answers_under_its_pinned_key_with_a_kernel_of_its_own(node):
    assert node.run("systemd-detect-virt --container || true").strip() == "none"
    assert node.run("hostname").strip() == "vm"
    assert node.run("systemctl is-system-running --wait").strip() == "running"
    key = node.run("cat /etc/ssh/ssh_host_ed25519_key.pub").split()[:2]
    assert " ".join(key) == node.server.host_key
    assert node.server.provider_facts["kind"] == "vm"
    assert "Mem:" in node.run("free -h; test $(nproc) = 2")


def test_no_key_is_an_argument_or_in_what_docker_shows(node):
    container = f"gpuferry-{node.stack}-vm"
    shown = docker("inspect", container) + docker("top", container, "-eo", "pid,args")
    assert "qemu-system-x86_64" in shown
    secret = node.args.host_private_key.splitlines()[2]
    assert secret not in shown


def test_extra_disks_are_raw_and_found_by_their_numbers(node):
    for number in (1, 2):
        disk = f"/dev/disk/by-id/virtio-extra-{number}"
        assert node.run(f"blockdev --getsize64 {disk}").strip() == str(1 << 30)
        assert node.run(f"blkid -p {disk} || true") == ""


def test_an_encrypted_disk_is_made(node):
    node.run(
        "disk=/dev/disk/by-id/virtio-extra-1\n"
        "(umask 077; head -c 64 /dev/urandom > /etc/extra.key)\n"
        # The default key derivation measures the processor for seconds, which proves nothing here.
        "cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000"
        " $disk /etc/extra.key\n"
        'echo "vault $disk /etc/extra.key luks" >> /etc/crypttab\n'
        "cryptsetup open --key-file /etc/extra.key $disk vault\n"
        "mkfs.ext4 -q /dev/mapper/vault; mkdir /vault\n"
        "echo '/dev/mapper/vault /vault ext4 nofail,x-systemd.before=local-fs.target 0 2'"
        " >> /etc/fstab\n"
        "mount /vault; echo canary-4711 > /vault/note; sync\n"
        "! grep -aq canary-4711 $disk"
    )


def test_a_module_is_built_by_dkms_and_loaded(node):
    build_module(node)
    assert loads(node) == ""
    assert "ferrytest" in node.run("lsmod")


def test_without_secure_boot_unsigned_code_loads(node):
    assert node.server.provider_facts["secure_boot"] == "off"
    assert "SecureBoot enabled" not in mokutil(node)


def test_with_secure_boot_the_signed_kernel_boots_and_our_module_is_refused(node):
    first = node.boot_id()
    outputs = node.resize(secure_boot=True)
    assert node.boot_id() != first
    assert outputs["provider_facts"]["secure_boot"] == "on"
    assert "SecureBoot enabled" in mokutil(node)
    assert "Key was rejected by service" in loads(node)
    # The module itself is there for this kernel too; only its signature is not trusted.
    assert "not found" not in loads(node)
    assert node.run("cat /vault/note") == "canary-4711\n"
