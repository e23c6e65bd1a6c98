"""Data disks of local servers: an ext4 file system in a file, so that its size is real.

The disk outlives the machine it is attached to: a rebuild keeps it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from gpuferry.errors import PrerequisiteMissing, StepFailed
from gpuferry.nodes.local import image, network
from gpuferry.paths import local_dir

GIB = 1 << 30
_RELEASE_SECONDS = 20.0


def image_path(stack: str, server: str) -> Path:
    """The file that holds the disk."""
    return local_dir(stack) / "disks" / f"{server}.ext4"


def mount_path(stack: str, server: str) -> Path:
    """Where the disk is mounted on this machine; the container sees it as /data."""
    return local_dir(stack) / "disks" / server


def extra_folder(stack: str, server: str) -> Path:
    """The folder with a virtual machine's further disks, `1.raw` and so on."""
    return local_dir(stack) / "disks" / f"{server}.extra"


def create(
    stack: str, server: str, size_gib: int, extra_disks_gib: Sequence[int] = ()
) -> dict[str, int]:
    """Make the disks at their sizes, or grow them; reserve the server's address with them.

    Extra disks are raw, without a file system. One that is not declared any more is kept until
    the server goes, since nobody knows what is on it.

    Raises:
        StepFailed: a size is smaller than the disk is.
    """
    for number, gib in enumerate(extra_disks_gib, start=1):
        _make_extra(stack, server, number, gib)
    path = image_path(stack, server)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        draft = path.with_suffix(".tmp")
        draft.unlink(missing_ok=True)
        with open(draft, "wb") as file:
            os.truncate(file.fileno(), size_gib * GIB)
        # Its root belongs to the image's admin user, who is to work there.
        owner = f"root_owner={image.ADMIN_UID}:{image.ADMIN_UID}"
        _tool("mkfs.ext4", "-q", "-F", "-L", "data", "-m", "0", "-E", owner, str(draft))
        draft.replace(path)
    have = path.stat().st_size
    if have > size_gib * GIB:
        raise StepFailed(
            f"The data disk of {server} is {have / GIB:.0f} GiB and cannot shrink to {size_gib} "
            f"GiB. Set data_disk_gib back to at least {have / GIB:.0f}."
        )
    if have < size_gib * GIB or _growing(path).exists():
        _growing(path).touch()
        _grow(stack, server, size_gib)
        _growing(path).unlink()
    return {"host_number": network.reserve_address(stack, server), "size_gib": size_gib}


def _make_extra(stack: str, server: str, number: int, size_gib: int) -> None:
    path = extra_folder(stack, server) / f"{number}.raw"
    path.parent.mkdir(parents=True, exist_ok=True)
    have = path.stat().st_size if path.exists() else 0
    if have > size_gib * GIB:
        raise StepFailed(
            f"Extra disk {number} of {server} is {have / GIB:.0f} GiB and cannot shrink to "
            f"{size_gib} GiB. Set its entry in extra_disks_gib back to at least {have / GIB:.0f}."
        )
    if have == size_gib * GIB:
        return
    from gpuferry.nodes.local import machine

    # QEMU takes a disk's size once, when it starts.
    with machine.stopped(stack, server), open(path, "ab") as file:
        os.truncate(file.fileno(), size_gib * GIB)


def _growing(path: Path) -> Path:
    """A mark that growing has begun; a killed run leaves it, and the next one finishes."""
    return path.with_suffix(".growing")


def _grow(stack: str, server: str, size_gib: int) -> None:
    # Growing a mounted ext4 needs CAP_SYS_RESOURCE, which a containerised host may lack; so the
    # server is stopped for it, as with most providers.
    from gpuferry.nodes.local import machine

    path = image_path(stack, server)
    with machine.stopped(stack, server):
        unmount(stack, server)
        _wait_for_release(path)
        subprocess.run(["e2fsck", "-f", "-p", str(path)], capture_output=True, check=False)
        # resize2fs extends the file first, so its size does not tell whether it has finished.
        _tool("resize2fs", str(path), f"{size_gib}G")


def _wait_for_release(path: Path) -> None:
    """The mounts of a stopped container end a moment after it; until then the disk is in use."""
    deadline = time.monotonic() + _RELEASE_SECONDS
    while _tool("losetup", "--associated", str(path)):
        if time.monotonic() > deadline:
            raise StepFailed(
                f"{path} is still mounted somewhere {_RELEASE_SECONDS:.0f} s after its server was "
                "stopped, so it was not grown. Find who uses it with lsblk, then run this again."
            )
        time.sleep(0.1)


def mount(stack: str, server: str) -> Path:
    """Mount the disk where it is not mounted yet; return the mount point."""
    where = mount_path(stack, server)
    where.mkdir(parents=True, exist_ok=True)
    if not os.path.ismount(where):
        _tool("mount", "-o", "loop,nodev,nosuid", str(image_path(stack, server)), str(where))
    return where


def unmount(stack: str, server: str) -> None:
    """Unmount the disk; its loop device is released with it."""
    where = mount_path(stack, server)
    if os.path.ismount(where):
        _tool("umount", str(where))


def delete(stack: str, server: str) -> None:
    """Remove the disk, its data and the server's address."""
    unmount(stack, server)
    image_path(stack, server).unlink(missing_ok=True)
    _growing(image_path(stack, server)).unlink(missing_ok=True)
    shutil.rmtree(extra_folder(stack, server), ignore_errors=True)
    if mount_path(stack, server).is_dir():
        mount_path(stack, server).rmdir()
    network.release_address(stack, server)


def _tool(*command: str) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise PrerequisiteMissing(f"{command[0]} is missing. Run `./ferry doctor`.") from None
    if result.returncode != 0:
        said = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
        raise StepFailed(f"{command[0]} failed on {command[-2]}: {said[-1]}")
    return result.stdout
