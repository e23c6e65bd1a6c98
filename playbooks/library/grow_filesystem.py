#!/usr/bin/python
"""Grow a mounted file system to the size of its device."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: grow_filesystem
short_description: Grow a mounted file system to the size of its device
description:
  - Grows the last partition of a disk first, then ext4 or XFS on it, while mounted. Leaves alone
    what has no block device of its own (containers, network file systems) and says so.
options:
  path:
    description: Where the file system is mounted; another path has nothing to grow.
    type: path
author: [gpuferry]
"""

SECTOR = 512
# Less than this is alignment and the backup partition table, not growth.
SLACK_BYTES = 16 * 1024 * 1024


def read(path):
    """Text of a small file, or an empty string."""
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read().strip()
    except OSError:
        return ""


def mounted(path):
    """Source, type and device number of what is mounted at `path`, the last mount counting."""
    found = ("", "", "")
    with open("/proc/self/mountinfo", encoding="utf-8") as handle:
        for line in handle:
            left, right = line.split(" - ")
            fields = left.split()
            if fields[4] == path and fields[3] == "/":
                found = (right.split()[1], right.split()[0], fields[2])
    return found


def partition_to_grow(device_number):
    """Disk and partition number if the partition is the disk's last and leaves room behind it."""
    block = os.path.realpath(f"/sys/dev/block/{device_number}")
    number = read(f"{block}/partition")
    if not number:
        return None
    disk = os.path.dirname(block)
    end = int(read(f"{block}/start")) + int(read(f"{block}/size"))
    starts = [
        int(read(f"{disk}/{name}/start") or 0)
        for name in os.listdir(disk)
        if os.path.exists(f"{disk}/{name}/partition")
    ]
    behind = (int(read(f"{disk}/size")) - end) * SECTOR
    if max(starts) >= end or behind <= SLACK_BYTES:
        return None
    return f"/dev/{os.path.basename(disk)}", number


def run(module, *argv):
    """Run a command; the module fails with its message if it does not succeed or is missing."""
    if not shutil.which(argv[0]):
        package = {
            "growpart": "cloud-guest-utils",
            "resize2fs": "e2fsprogs",
            "xfs_growfs": "xfsprogs",
        }[argv[0]]
        module.fail_json(
            msg=f"{argv[0]} is needed to grow {module.params['path']}; install {package}."
        )
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        module.fail_json(msg=f"{' '.join(argv)} failed: {done.stdout.strip()[-600:]}")


def total(path):
    """Bytes of the file system that holds `path`."""
    status = os.statvfs(path)
    return status.f_blocks * status.f_frsize


def main():
    """Grow what can be grown."""
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True
    )
    path = os.path.realpath(module.params["path"])
    if not os.path.isdir(path):
        module.exit_json(changed=False, bytes=0, reason=f"{path} does not exist")
    before = total(path)
    source, kind, device_number = mounted(path)
    if kind not in ("ext4", "xfs") or not os.path.exists(source):
        reason = f"{path} is no ext4 or XFS file system on a device of this server"
        module.exit_json(changed=False, bytes=before, reason=reason)
    partition = partition_to_grow(device_number)
    size = int(read(f"/sys/dev/block/{device_number}/size") or 0) * SECTOR
    # The file system's own tables are at most a few per cent of the device.
    needed = bool(partition) or (
        not re.match(r"loop", os.path.basename(source)) and before < size * 0.93
    )
    if needed and not module.check_mode:
        if partition:
            run(module, "growpart", *partition)
        run(module, *(("resize2fs", source) if kind == "ext4" else ("xfs_growfs", path)))
    after = total(path)
    changed = needed if module.check_mode else after != before
    module.exit_json(
        changed=changed, bytes=after, reason="grown" if changed else "has the size of its device"
    )


if __name__ == "__main__":
    main()
