"""One local server: a systemd container, or a container that runs a virtual machine."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gpuferry.errors import StepFailed
from gpuferry.nodes.local import baked_image, disk, gpu_hardware, host, image, network
from gpuferry.nodes.local.docker import (
    LABEL_ROOT,
    LABEL_SPEC,
    LABEL_STACK,
    ContainerFile,
    docker,
    inspect,
    labelled,
    put_files,
)
from gpuferry.nodes.local.vm import machine as vm
from gpuferry.paths import data_dir

LABEL_SERVER = "gpuferry.server"
LABEL_KIND = "gpuferry.kind"
_STOP_SECONDS = 20
# What a system manager says of itself that does not shut down (systemctl(1), is-system-running).
_UP = {"initializing", "starting", "running", "degraded", "maintenance"}
# Mounts propagate as on a real server. In a container systemd leaves that to Docker, which does not
# do it, and then a service's credentials (LoadCredential=) stay invisible to the service.
_START = "mount --make-rshared / && exec /sbin/init"
# A baked image that was made later is no reason to make a server again.
_CHANGES_IN_PLACE = {"cpus", "memory_gib", "secure_boot", "extra_disks", "baked_key"}


class MachineArgs(BaseModel):
    """What a local machine is made from. The host key is put there before its first boot."""

    model_config = ConfigDict(extra="forbid")

    stack: str
    name: str
    image: str
    cpus: float
    memory_gib: float
    host_number: int
    subnet4: str
    subnet6: str
    host_private_key: str
    host_public_key: str
    authorized_key: str
    kind: Literal["container", "vm"] = "container"
    secure_boot: bool = False
    extra_disks: int = 0
    packages: list[str] = []  # beside the image's own; kind vm only
    gpu_model: str = ""
    gpu_count: int = 0
    baked_key: str = ""

    @property
    def address4(self) -> str:
        """IPv4 address on the stack's network."""
        return str(ipaddress.ip_network(self.subnet4)[self.host_number])

    @property
    def address6(self) -> str:
        """IPv6 address on the stack's network."""
        return str(ipaddress.ip_network(self.subnet6)[self.host_number])

    def identity(self) -> str:
        """Hash of all that cannot change in place; another one means another machine."""
        fixed = self.model_dump(exclude=_CHANGES_IN_PLACE)
        # Machines that are older than these fields stay the same.
        if self.kind == "container":
            del fixed["kind"], fixed["packages"]
        if not self.gpu_count:
            del fixed["gpu_model"], fixed["gpu_count"]
        return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()


def container_name(stack: str, server: str) -> str:
    """The container of a server."""
    return f"gpuferry-{stack}-{server}"


def create(args: MachineArgs, say: Callable[[str], None]) -> dict[str, Any]:
    """Make the server as declared; a container left by a killed run is adopted or made anew.

    Returns the outputs that every provider gives.
    """
    name = container_name(args.stack, args.name)
    found = inspect("container", name)
    if found is not None and not _is_ours(found, args):
        say("removing what an interrupted run left")
        delete(args.stack, args.name)
        found = None
    if args.kind == "vm":
        return _outputs(args, name, _create_vm(args, name, say, there=found is not None))
    disk.mount(args.stack, args.name)
    if found is None:
        tag = _image(args, say)
        say("creating the machine")
        docker("volume", "create", *_labels(args), f"{name}-docker")
        docker(*_create_command(args, name, tag))
        put_files(name, _first_boot_files(args, say))
    docker("start", name)
    _apply_size(args, name)
    return _outputs(args, name, {})


def _image(args: MachineArgs, say: Callable[[str], None]) -> str:
    """The baked image where there is one that fits, else the bare one."""
    tag = baked_image.find(image.reference(args.image), args.baked_key)
    if tag is not None:
        say("starting from the baked image")
    return tag or image.ensure(args.image, say)


def _create_vm(
    args: MachineArgs, name: str, say: Callable[[str], None], *, there: bool
) -> dict[str, str]:
    if not there:
        disk.extra_folder(args.stack, args.name).mkdir(parents=True, exist_ok=True)
        disk.unmount(args.stack, args.name)
        command = vm.create_command(args, name, _labels(args), say)
        say("creating the virtual machine")
        docker(*command)
        put_files(name, vm.first_boot_files(args, _first_boot_files(args, say)))
    return vm.run(args, name, say)


def _is_ours(found: dict[str, Any], args: MachineArgs) -> bool:
    labels = found["Config"]["Labels"]
    if labels.get(LABEL_ROOT) != str(data_dir()):
        raise StepFailed(
            f"A container named {found['Name'].lstrip('/')} belongs to somebody else; it is left "
            "alone. Choose another stack or server name."
        )
    finished_first_boot = found["State"]["StartedAt"][:4] != "0001"
    return bool(labels.get(LABEL_SPEC) == args.identity() and finished_first_boot)


def _create_command(args: MachineArgs, name: str, tag: str) -> list[str]:
    return [
        *("container", "create", "--name", name, "--hostname", args.name),
        # What systemd, nftables and a nested Docker need; --privileged is not needed.
        *("--cap-add", "SYS_ADMIN", "--cap-add", "NET_ADMIN", "--cap-add", "SYS_PTRACE"),
        *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"),
        *("--tmpfs", "/run", "--tmpfs", "/tmp:exec", "--stop-signal", "SIGRTMIN+3"),
        *host.cgroup_arguments(),
        # For encrypted volumes, where this machine has it.
        *(("--device", "/dev/fuse") if Path("/dev/fuse").exists() else ()),
        *("-v", f"{name}-docker:/var/lib/docker"),
        *("-v", f"{disk.mount_path(args.stack, args.name)}:/data"),
        *("--network", network.name(args.stack), "--ip", args.address4, "--ip6", args.address6),
        *_labels(args),
        *(tag, "/bin/sh", "-c", _START),
    ]


def _labels(args: MachineArgs) -> list[str]:
    labels = {
        LABEL_STACK: args.stack,
        LABEL_ROOT: str(data_dir()),
        LABEL_SPEC: args.identity(),
        LABEL_SERVER: args.name,
        LABEL_KIND: args.kind,
    }
    return [part for key, value in labels.items() for part in ("--label", f"{key}={value}")]


def _first_boot_files(args: MachineArgs, say: Callable[[str], None]) -> list[ContainerFile]:
    """The host key and the authorized key, there before the first boot, and simulated GPUs."""
    hardware: list[ContainerFile] = []
    if args.gpu_count:
        hardware = gpu_hardware.files(args.name, args.gpu_model, args.gpu_count, say)
    ssh, admin = f"home/{image.ADMIN_USER}/.ssh", image.ADMIN_UID
    return [
        ContainerFile("etc/ssh/ssh_host_ed25519_key", args.host_private_key),
        ContainerFile("etc/ssh/ssh_host_ed25519_key.pub", args.host_public_key + "\n", 0o644),
        ContainerFile(ssh, None, 0o700, admin),
        ContainerFile(f"{ssh}/authorized_keys", args.authorized_key + "\n", 0o600, admin),
        *hardware,
    ]


def _apply_size(args: MachineArgs, name: str) -> None:
    memory = f"{int(args.memory_gib * 1024)}m"
    docker("update", "--cpus", f"{args.cpus:g}", "--memory", memory, "--memory-swap", memory, name)


def _outputs(args: MachineArgs, name: str, facts: dict[str, str]) -> dict[str, Any]:
    found = inspect("container", name)
    if found is None:
        raise StepFailed(f"The container {name} vanished right after it was started.")
    return {
        "address": args.address4,
        "port": 22,
        "user": image.ADMIN_USER,
        "host_key": args.host_public_key,
        "private_address": args.address4,
        "instance_id": found["Id"][:12],
        "provider_facts": {
            "provider": "local",
            "kind": args.kind,
            "image": args.image,
            "baked": "yes" if found["Config"]["Image"].startswith(baked_image.NAME) else "no",
            "address6": args.address6,
            "cpus": f"{args.cpus:g}",
            "memory_gib": f"{args.memory_gib:g}",
            **facts,
        },
    }


def delete(stack: str, server: str) -> None:
    """Remove the machine and Docker's own data in it; the data disk stays."""
    name = container_name(stack, server)
    found = inspect("container", name)
    if found is not None:
        if _is_vm(found) and found["State"]["Running"]:
            stop(stack, server)  # or its data disk, which stays, would not be clean
        docker("container", "rm", "--force", name)
    if inspect("volume", f"{name}-docker") is not None:
        docker("volume", "rm", "--force", f"{name}-docker")
    disk.unmount(stack, server)


def start(stack: str, server: str) -> None:
    """Start a stopped server, its disk first."""
    found = inspect("container", container_name(stack, server))
    if found is None or not _is_vm(found):
        disk.mount(stack, server)
    docker("start", container_name(stack, server))


def stop(stack: str, server: str) -> None:
    """Stop a server cleanly; a container's disk stays mounted here."""
    name = container_name(stack, server)
    found = inspect("container", name)
    seconds = vm.STOP_SECONDS + 15 if found and _is_vm(found) else _STOP_SECONDS
    docker("stop", "--time", str(seconds), name, timeout_seconds=seconds + 60)


def _is_vm(found: dict[str, Any]) -> bool:
    return bool(found["Config"]["Labels"].get(LABEL_KIND) == "vm")


@contextmanager
def stopped(stack: str, server: str) -> Iterator[None]:
    """Keep a server stopped for the length of the block, then start it again if it ran."""
    found = inspect("container", container_name(stack, server))
    running = bool(found and found["State"]["Running"])
    if running:
        stop(stack, server)
    try:
        yield
    finally:
        if running:
            start(stack, server)


def states(stack: str) -> dict[str, str]:
    """Server name to Docker's state (`running`, `exited`, …) for all machines of a stack."""
    result = {}
    for name in labelled("container", stack):
        found = inspect("container", name)
        if found and (server := found["Config"]["Labels"].get(LABEL_SERVER)):
            result[server] = found["State"]["Status"]
    return result


def settled(stack: str, server: str, state: str, deadline_seconds: float = 60) -> str:
    """The state of a server, its shutdown waited for: Docker calls it `running` until it is off."""
    name = container_name(stack, server)
    give_up = time.monotonic() + deadline_seconds
    while state == "running" and time.monotonic() < give_up:
        found = inspect("container", name)
        if found is None or not found["State"]["Running"]:
            return str(found["State"]["Status"]) if found else "gone"
        if _is_vm(found) or not _shuts_down(int(found["State"]["Pid"])):
            break
        time.sleep(0.3)
    return state


def _shuts_down(pid: int) -> bool:
    """Whether the systemd with this process id is on its way off.

    Asked from its namespaces: `docker exec` fails where containers share a hybrid host's cgroups.
    """
    with suppress(OSError):
        if Path(f"/proc/{pid}/comm").read_text().startswith("systemd-shutdow"):
            return True
    argv = ["nsenter", f"--target={pid}", "--mount", "--uts", "--ipc", "--net", "--pid"]
    argv += ["systemctl", "is-system-running"]
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
        # On its way off its bus goes before it does, so that no answer is an answer.
        return done.stdout.strip() not in _UP
    return True
