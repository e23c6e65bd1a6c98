"""What is really there of a local stack, compared with what should be."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from gpuferry.nodes.local import disk, machine, network, object_store
from gpuferry.nodes.local.docker import LABEL_ROOT, LABEL_STACK, docker, inspect, labelled
from gpuferry.paths import data_dir, local_dir


def revive(stack: str, resources: set[str], say: Callable[[str], None]) -> list[str]:
    """Start what is stopped, for instance after a reboot of this machine.

    Returns the names of those `resources` that must be made again: things that are gone, and then,
    or when something was started, the verification of every server.
    """
    lost: list[str] = []
    started: list[str] = []

    def note(text: str) -> None:
        started.append(text)
        say(text)

    if "network" in resources and inspect("network", network.name(stack)) is None:
        lost.append("network")
    if "object-store" in resources and (not revive_object_store(stack, note) or "network" in lost):
        lost.append("object-store")
    servers = sorted(r.removesuffix("-machine") for r in resources if r.endswith("-machine"))
    states = machine.states(stack)
    for server in servers:
        if server not in states or "network" in lost:
            lost.append(f"{server}-machine")
        elif states[server] == "created":
            continue  # half-made by an interrupted run; its creation is repeated
        elif (state := machine.settled(stack, server, states[server])) != "running":
            note(f"starting {server}, which was {state}")
            machine.start(stack, server)
    for name in lost:
        note(f"{name} is gone; it is made again")
    return lost + (sorted(r for r in resources if r.endswith("-verify")) if started else [])


def revive_object_store(stack: str, say: Callable[[str], None]) -> bool:
    """Start the stack's S3 server if it is stopped; False when there is none."""
    name = object_store.container_name(stack)
    found = inspect("container", name)
    if found is not None and not found["State"]["Running"]:
        say("starting the object store, which was stopped")
        docker("start", name)
        object_store.wait_until_it_listens(stack)
    return found is not None


_KINDS = ("container", "network", "volume")


def stacks() -> set[str]:
    """Names of all stacks of this data folder that have a container or a network."""
    mine = ("--filter", f"label={LABEL_ROOT}={data_dir()}")
    told = ("--format", f'{{{{.Label "{LABEL_STACK}"}}}}')
    listed = docker("ps", "--all", *mine, *told) + docker("network", "ls", *mine, *told)
    return set(listed.split())


def leftovers(stack: str) -> list[str]:
    """What carries the stack's label, and its disks."""
    disks = sorted(path.stem for path in (local_dir(stack) / "disks").glob("*.ext4"))
    found = [name for kind in _KINDS for name in labelled(kind, stack)]
    return found + [f"disk of {name}" for name in disks]


def sweep(stack: str) -> list[str]:
    """Remove everything that carries the stack's label, and its folder; return what was found."""
    left = leftovers(stack)
    for kind in _KINDS:
        for name in labelled(kind, stack):
            docker(kind, "rm", *(["--force"] if kind != "network" else []), name)
    folder = local_dir(stack)
    if folder.is_dir():
        for image in (folder / "disks").glob("*.ext4"):
            disk.unmount(stack, image.stem)
        shutil.rmtree(folder)
    return left
