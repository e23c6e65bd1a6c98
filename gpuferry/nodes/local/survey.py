"""What is really there of a local stack, compared with what should be."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from gpuferry.nodes.local import disk, machine, network, object_store
from gpuferry.nodes.local.docker import docker, inspect, labelled
from gpuferry.paths import local_dir


def revive(stack: str, resources: set[str], say: Callable[[str], None]) -> list[str]:
    """Start what is stopped, for instance after a reboot of this machine.

    Returns the names of those `resources` whose thing is gone and must be made again.
    """
    lost = []
    if "network" in resources and inspect("network", network.name(stack)) is None:
        lost.append("network")
    if "object-store" in resources:
        found = inspect("container", object_store.container_name(stack))
        if found is None or "network" in lost:
            lost.append("object-store")
        elif not found["State"]["Running"]:
            say("starting the object store, which was stopped")
            docker("start", object_store.container_name(stack))
    servers = sorted(r.removesuffix("-machine") for r in resources if r.endswith("-machine"))
    states = machine.states(stack)
    for server in servers:
        if server not in states or "network" in lost:
            lost.append(f"{server}-machine")
        elif states[server] != "running":
            say(f"starting {server}, which was {states[server]}")
            machine.start(stack, server)
    return lost


def sweep(stack: str) -> list[str]:
    """Remove everything that carries the stack's label, and its folder; return what was found."""
    left = []
    for kind in ("container", "network", "volume"):
        for name in labelled(kind, stack):
            force = ["--force"] if kind != "network" else []
            docker(kind, "rm", *force, name)
            left.append(name)
    folder = local_dir(stack)
    if folder.is_dir():
        for image in (folder / "disks").glob("*.ext4"):
            disk.unmount(stack, image.stem)
        shutil.rmtree(folder)
    return left
