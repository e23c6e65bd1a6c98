"""Another kernel boots, and the module follows once its headers come; each boot takes a while."""

from __future__ import annotations

import re

import pytest

from tests.vm.test_kernel import TOOLS, build_module, loads

pytestmark = pytest.mark.slow
# The one that was installed last boots. Of one version, they share most of their headers.
TWO_KERNELS = [*TOOLS, "linux-image-amd64", "linux-headers-amd64"]
INSTALL = "apt-get install -yqq --no-install-recommends -o Dpkg::Use-Pty=0"


@pytest.fixture(scope="module")
def node(new_node):
    node = new_node("debian-13", "vm", kind="vm", packages=TWO_KERNELS)
    build_module(node)
    return node


@pytest.fixture(scope="module")
def other_kernel(node) -> str:
    """Release of another kernel, which was installed without its headers."""
    running = node.run("uname -r").strip()
    releases = re.findall(r"(?m)^/boot/vmlinuz-(\S+)$", node.run("ls /boot/vmlinuz-*"))
    (other,) = set(releases) - {running}
    return other


def test_another_kernel_boots_without_its_headers_and_has_no_module(node, other_kernel):
    """The disk's own boot loader decides, as on a rented server."""
    node.run("update-grub")
    identifiers = re.findall(r"'(gnulinux-\S+)'", node.run("cat /boot/grub/grub.cfg"))
    submenu = next(x for x in identifiers if x.startswith("gnulinux-advanced-"))
    entry = next(x for x in identifiers if f"{other_kernel}-advanced" in x)
    node.run(f"grub-reboot '{submenu}>{entry}'")
    node.reboot()
    assert node.run("uname -r").strip() == other_kernel
    assert "not found" in loads(node)


def test_headers_that_come_later_bring_the_module(node, other_kernel):
    node.run("apt-get update -qq", timeout_seconds=300)
    node.run(f"{INSTALL} linux-headers-{other_kernel}", timeout_seconds=600)
    assert loads(node) == ""
    assert f"{other_kernel}, x86_64: installed" in node.run("dkms status")
