"""One virtual machine as one server: a container that runs QEMU in the server's place."""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpuferry.errors import StepFailed
from gpuferry.nodes.local import disk, host, network
from gpuferry.nodes.local.docker import ContainerFile, docker, inspect, put_files
from gpuferry.nodes.local.vm import acceleration, guest, image

if TYPE_CHECKING:
    from gpuferry.nodes.local.machine import MachineArgs

# A guest under emulation takes about 10 s to shut down; with many services, longer.
STOP_SECONDS = 90
_START_DEADLINE_SECONDS = 20


def create_command(
    args: MachineArgs, name: str, labels: list[str], say: Callable[[str], None]
) -> list[str]:
    """The container: QEMU, the server's addresses, its disks."""
    tag = image.ensure(args.image, say, tuple(args.packages))
    devices = ["--device", "/dev/net/tun"]
    if acceleration.ensure(tag, say).accelerator == "kvm":
        devices += ["--device", str(acceleration.DEVICE)]
    return [
        *("container", "create", "--name", name, "--hostname", args.name),
        # For the bridge between the container's interface and the guest's.
        *("--cap-add", "NET_ADMIN", *devices),
        # Empty at every start, so that what is said there is about this start.
        *("--tmpfs", "/run"),
        *("--network", network.name(args.stack), "--ip", args.address4, "--ip6", args.address6),
        *("-v", f"{disk.image_path(args.stack, args.name)}:/disks/data.ext4"),
        *("-v", f"{disk.extra_folder(args.stack, args.name)}:/disks/extra"),
        *("--stop-timeout", str(STOP_SECONDS + 15)),
        # The guest's console.
        *("--log-driver", "json-file", "--log-opt", "max-size=2m", "--log-opt", "max-file=1"),
        *labels,
        *("--workdir", "/opt", tag, "python3", "-B", "-m", "vm.supervise"),
    ]


def mac(address4: str) -> str:
    """The server's MAC address, the same for ever; Docker used to derive them in this way too."""
    return "02:42:" + ":".join(f"{byte:02x}" for byte in ipaddress.ip_address(address4).packed)


def clock_address(address4: str) -> str:
    """Where the guest finds its time server: link-local (RFC 3927), different for each server."""
    third, fourth = ipaddress.ip_address(address4).packed[2:]
    return f"169.254.{third}.{fourth}"


def first_boot_files(args: MachineArgs, identity: list[ContainerFile]) -> list[ContainerFile]:
    """The supervisor, and the seed disk with `identity` (keys) and the network's settings."""
    subnets = [ipaddress.ip_network(subnet) for subnet in (args.subnet4, args.subnet6)]
    settings = guest.network_files(
        args.name,
        mac(args.address4),
        [
            f"{a}/{n.prefixlen}"
            for a, n in zip((args.address4, args.address6), subnets, strict=True)
        ],
        [str(subnet[1]) for subnet in subnets],
        host.nameservers(),
        clock_address(args.address4),
    )
    scripts = [
        ContainerFile(f"opt/vm/{path.name}", path.read_text(), 0o755)
        for path in sorted(image.INSIDE.glob("*.py"))
    ]
    return [
        ContainerFile("opt/vm", None, 0o755),
        *scripts,
        ContainerFile("etc/vm", None, 0o700),
        ContainerFile("etc/vm/seed.tar", guest.seed(identity, settings)),
    ]


def configuration(args: MachineArgs, accelerator: str) -> dict[str, Any]:
    """What may change with a restart."""
    return {
        "cpus": int(args.cpus),
        "memory_mib": int(args.memory_gib * 1024),
        "secure_boot": args.secure_boot,
        "extra_disks": args.extra_disks,
        "accelerator": accelerator,
        "mac": mac(args.address4),
        "address": args.address4,
        "clock": clock_address(args.address4),
        "stop_seconds": STOP_SECONDS,
    }


def run(args: MachineArgs, name: str, say: Callable[[str], None]) -> dict[str, str]:
    """Start the machine as configured; one that runs otherwise is restarted.

    Returns the facts that only virtual machines have.

    Raises:
        StepFailed: QEMU did not stay; the message ends with its last words.
    """
    found = inspect("container", name)
    has_kvm = bool(found and _has_kvm(found))
    wanted = configuration(args, "kvm" if has_kvm else "tcg")
    if found and found["State"]["Running"] and _running(name) != wanted:
        say("restarting the machine at its new size")
        docker("stop", name, timeout_seconds=STOP_SECONDS + 60)
    put_files(name, [ContainerFile("etc/vm/config.json", json.dumps(wanted))])
    docker("start", name)
    running = _wait(name)
    return {
        "accelerator": running["accelerator"],
        "firmware": "uefi",
        "secure_boot": "on" if running["secure_boot"] else "off",
        "extra_disks": str(running["extra_disks"]),
    }


def _has_kvm(found: dict[str, Any]) -> bool:
    devices = found["HostConfig"]["Devices"] or []
    return any(device["PathOnHost"] == str(acceleration.DEVICE) for device in devices)


def _running(name: str) -> dict[str, Any] | None:
    """What QEMU was started with; None while it has not been."""
    try:
        return dict(json.loads(docker("exec", name, "cat", "/run/vm/running.json")))
    except (StepFailed, ValueError):
        return None


def _wait(name: str) -> dict[str, Any]:
    deadline = time.monotonic() + _START_DEADLINE_SECONDS
    while time.monotonic() < deadline:
        found = inspect("container", name)
        if found is None or not found["State"]["Running"]:
            break
        if running := _running(name):
            return running
        time.sleep(0.2)
    said = docker("logs", "--tail", "3", name).strip()
    raise StepFailed(f"The virtual machine {name} does not start: {said}")
