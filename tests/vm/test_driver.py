"""The role nvidia_driver where a module is really built, loaded, exchanged, and loaded at boot.

Packages, modules and nvidia-smi are small stand-ins under the names of Debian's; PCI is a folder.
apt, dkms, initramfs, systemd and the reboots are real.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuferry.errors import StepFailed
from tests.support.node import Node
from tests.support.packages import publish, versions
from tests.vm.test_kernel import WITH_HEADERS

pytestmark = pytest.mark.slow
PARTS = Path(__file__).parent / "stand_ins"
FIRST, SECOND = "550.900.01", "550.900.02"
DEVICE = "/var/lib/gpusim/root/sys/bus/pci/devices/0000:01:00.0"
COUNTED = "/usr/local/sbin/update-initramfs"


def part(name: str, version: str) -> bytes:
    return (PARTS / name).read_text().replace("@VERSION@", version).encode()


def offer(node: Node, version: str) -> None:
    """Debian's driver packages, in a version that Debian does not have."""
    source = f"/usr/src/nvidia-current-{version}"
    sources = ("nvidia.c", "nvidia-uvm.c", "Makefile", "dkms.conf")
    names = ["nvidia-kernel-dkms", "libcuda1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1"]
    names += ["libnvidia-cfg1", "nvidia-smi", "nvidia-persistenced"]
    build = f"dkms install -m nvidia-current -v {version}"
    remove = f"dkms remove -m nvidia-current -v {version} --all"
    unit = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
    publish(
        node,
        dict.fromkeys(names, f"{version}-1"),
        contents={
            "nvidia-kernel-dkms": {f"{source}/{name}": part(name, version) for name in sources},
            "libnvidia-ml1": {f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}": b""},
            "nvidia-smi": {"/usr/bin/nvidia-smi": part("nvidia-smi", version)},
            "nvidia-persistenced": {
                "/usr/lib/systemd/system/nvidia-persistenced.service": unit.encode()
            },
        },
        scripts={
            "nvidia-kernel-dkms": {
                "postinst": f"#!/bin/sh\nset -e\n{build}\n",
                "prerm": f"#!/bin/sh\nset -e\n{remove}\n",
            }
        },
    )


@pytest.fixture(scope="module")
def node(new_node):
    node = new_node("debian-13", "driver", kind="vm", packages=WITH_HEADERS)
    node.run(
        f"mkdir -p {DEVICE}; cd {DEVICE}; echo 0x10de > vendor; echo 0x27b8 > device; "
        "echo 0x030200 > class; echo 0x10de > subsystem_vendor; echo 0x16ca > subsystem_device\n"
        # Counts, and does the real thing.
        f"cat > {COUNTED} <<'END'\n#!/bin/sh\necho x >> /root/initramfs\n"
        'exec /usr/sbin/update-initramfs "$@"\n'
        f"END\nchmod 755 {COUNTED}"
    )
    offer(node, FIRST)
    return node


def play(node: Node, **wish: Any) -> list[str]:
    done = node.play("nvidia_driver", nvidia_driver_wish={"gpus": 1, **wish})
    return done.changed_tasks.get(node.server.name, [])


def loaded(node: Node) -> str:
    return node.run("cat /sys/module/nvidia/version; test -e /sys/module/nvidia_uvm").strip()


def persistence(node: Node) -> str:
    return node.run("systemctl is-active nvidia-persistenced").strip()


def test_the_driver_is_built_and_loaded_without_a_reboot(node):
    boot = node.boot_id()
    assert "nvidia_driver: Install exactly what was planned" in play(node)
    assert versions(node, "nvidia-kernel-dkms") == {"nvidia-kernel-dkms": f"{FIRST}-1"}
    assert (loaded(node), persistence(node)) == (FIRST, "active")
    assert node.run("wc -l < /root/initramfs").strip() == "1"
    assert "blacklist nouveau" in node.run("modprobe --showconfig")
    assert node.boot_id() == boot


def test_a_driver_that_works_is_left_alone(node):
    assert play(node) == []


def test_modules_that_were_unloaded_are_loaded_again(node):
    node.run("systemctl stop nvidia-persistenced; modprobe -r nvidia-uvm nvidia")
    assert play(node) == ["nvidia_driver: Load the driver and keep it loaded"]
    assert (loaded(node), persistence(node)) == (FIRST, "active")


def test_another_version_is_refused_where_the_reboot_would_end_work(node):
    offer(node, SECOND)
    hold = "exec 3</dev/nvidia0; sleep 900"
    node.run(f"mknod /dev/nvidia0 c 1 3; systemd-run -q --unit=work sh -c '{hold}'")
    with pytest.raises(StepFailed, match="would end work on the GPUs: process"):
        play(node, branch=SECOND, allow=["reboot"])
    node.run("systemctl stop work; rm /dev/nvidia0")
    assert loaded(node) == FIRST


def test_another_version_comes_with_one_reboot_and_all_runs_again(node):
    boot = node.boot_id()
    changed = play(node, branch=SECOND, allow=["reboot"])
    assert "nvidia_driver: Reboot into the new driver" in changed
    assert node.boot_id() != boot
    assert (loaded(node), persistence(node)) == (SECOND, "active")
    assert node.run("nvidia-smi --query-gpu=driver_version").strip() == SECOND
    assert node.run("wc -l < /root/initramfs").strip() == "1"
    assert play(node, branch=SECOND, allow=["reboot"]) == []
