"""Whether this machine can carry the local servers that a stack declares."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from gpuferry.spec.model import ServerSpec


@dataclass(frozen=True)
class Capacity:
    """What this machine has."""

    cpus: int
    memory_gib: float
    disk_gib: float


# What QEMU needs beside its guest's memory: translated code (256 MiB at most), buffers, itself.
VM_OVERHEAD_GIB = 0.4


def measure(folder: Path) -> Capacity:
    """CPUs and memory of this machine, free space where local disks are kept."""
    there = next(path for path in [folder, *folder.parents] if path.exists())
    return Capacity(
        cpus=len(os.sched_getaffinity(0)),
        memory_gib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30),
        disk_gib=shutil.disk_usage(there).free / (1 << 30),
    )


def existing_disks_gib(folder: Path) -> dict[str, float]:
    """Sizes of the data disks below a stack's folder, by server."""
    return {p.stem: p.stat().st_size / (1 << 30) for p in (folder / "disks").glob("*.ext4")}


def refusal(
    servers: list[ServerSpec], has: Capacity, disks_gib: dict[str, float] | None = None
) -> str | None:
    """Why these servers cannot run here, or None.

    CPUs are shared, so each server may have all of them; memory and disks add up, except that
    disks are sparse: only one that would by itself grow by more than the free space is refused.
    `disks_gib` are the sizes of disks that are there already.
    """
    for index, server in enumerate(servers):
        where = f"gpuferry:servers[{index}] ({server.name})"
        if server.cpus > has.cpus:
            return f"{where}.cpus: {server.cpus:g}, but this machine has {has.cpus}."
        there = (disks_gib or {}).get(server.name, 0)
        if server.data_disk_gib < there:
            return (
                f"{where}.data_disk_gib: {server.data_disk_gib}, but the disk has {there:.0f} GiB "
                "and can only grow."
            )
        if server.data_disk_gib - (disks_gib or {}).get(server.name, 0) > has.disk_gib:
            return (
                f"{where}.data_disk_gib: {server.data_disk_gib}, but this machine has "
                f"{has.disk_gib:.0f} GiB of free disk."
            )
        extra_gib = sum(server.extra_disks_gib)
        if extra_gib > has.disk_gib:
            return (
                f"{where}.extra_disks_gib: {extra_gib} GiB in all, but this machine has "
                f"{has.disk_gib:.0f} GiB of free disk."
            )
    total = sum(_memory_gib(server) for server in servers)
    if total > has.memory_gib:
        return (
            f"gpuferry:servers: {total:g} GiB of memory in all{_with_overhead(servers)}, "
            f"but this machine has {has.memory_gib:.0f} GiB; declare fewer or smaller servers."
        )
    return None


def _memory_gib(server: ServerSpec) -> float:
    return server.memory_gib + (VM_OVERHEAD_GIB if server.kind == "vm" else 0)


def _with_overhead(servers: list[ServerSpec]) -> str:
    virtual = any(server.kind == "vm" for server in servers)
    return f" ({VM_OVERHEAD_GIB} for each QEMU)" if virtual else ""
