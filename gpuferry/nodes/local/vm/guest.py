"""What is in a virtual machine's disk image besides Debian, and what makes one its own."""

from __future__ import annotations

from gpuferry.nodes.local import image
from gpuferry.nodes.local.docker import ContainerFile, tar_of

HOST_KEY = "etc/ssh/ssh_host_ed25519_key"

# The container image's packages, and what a machine needs to boot and to be looked at.
PACKAGES = (
    image.PACKAGES + ",linux-image-cloud-amd64,initramfs-tools,zstd,udev,kmod,e2fsprogs,"
    "shim-signed,grub-efi-amd64-signed,grub-efi-amd64-bin,grub2-common,efibootmgr,mokutil"
)

_SEED_UNIT = r"""[Unit]
Description=Take this server's identity from its seed disk
DefaultDependencies=no
ConditionPathExists=!/etc/ssh/ssh_host_ed25519_key
Requires=dev-disk-by\x2did-virtio\x2dseed.device
After=dev-disk-by\x2did-virtio\x2dseed.device systemd-remount-fs.service
Before=sysinit.target systemd-networkd.service ssh.service
Conflicts=shutdown.target
Before=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/tar --extract --file /dev/disk/by-id/virtio-seed --directory / --preserve-permissions
ExecStart=/bin/hostname --file /etc/hostname

[Install]
WantedBy=sysinit.target
"""

_GRUB = """GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX="console=ttyS0"
GRUB_TERMINAL=console
"""

# A kernel's first file system with what this machine boots from and nothing else: with every
# driver there is, and packed hard, making it takes minutes under emulation, at each new kernel.
_INITRAMFS = "MODULES=list\nCOMPRESSLEVEL=1\n"
_BOOT_MODULES = "virtio_pci\nvirtio_blk\next4\n"

HOOKS = (
    'chroot "$1" systemctl enable --quiet systemd-networkd.service provider-seed.service',
    # The address is there as soon as the link is; waiting for it only costs time.
    'chroot "$1" systemctl disable --quiet systemd-networkd-wait-online.service',
)


def files() -> dict[str, str]:
    """Files of the image: path to text."""
    return {
        "etc/systemd/system/provider-seed.service": _SEED_UNIT,
        "etc/default/grub": _GRUB,
        "etc/initramfs-tools/conf.d/provider": _INITRAMFS,
        "etc/initramfs-tools/modules": _BOOT_MODULES,
    }


def network_files(
    name: str,
    mac: str,
    addresses: list[str],
    gateways: list[str],
    nameservers: list[str],
    clock: str,
) -> list[ContainerFile]:
    """Host name, static addresses (with prefix length), resolver and time server of one server."""
    lines = ["[Match]", f"MACAddress={mac}", "Type=ether", "", "[Network]", "IPv6AcceptRA=no"]
    lines += [f"Address={address}" for address in addresses]
    lines += [f"Gateway={gateway}" for gateway in gateways]
    lines += [f"NTP={clock}", "", "[Route]", f"Destination={clock}/32", "Scope=link"]
    hosts = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    hosts += [f"{address.split('/')[0]} {name}" for address in addresses]
    resolver = "".join(f"nameserver {address}\n" for address in nameservers)
    return [
        ContainerFile("etc/hostname", f"{name}\n", 0o644),
        ContainerFile("etc/hosts", "\n".join(hosts) + "\n", 0o644),
        ContainerFile("etc/resolv.conf", resolver, 0o644),
        ContainerFile("etc/systemd/network/10-provider.network", "\n".join(lines) + "\n", 0o644),
    ]


def seed(identity: list[ContainerFile], network: list[ContainerFile]) -> bytes:
    """The seed disk: a tar file that the guest unpacks at its first boot, host key last.

    Last, because its presence tells that a first boot has taken everything.
    """
    last = [file for file in identity if file.path == HOST_KEY]
    return tar_of([*network, *(file for file in identity if file.path != HOST_KEY), *last])
