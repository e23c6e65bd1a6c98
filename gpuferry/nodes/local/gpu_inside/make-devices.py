#!/usr/bin/python3
"""Runs on a local server at boot: the device nodes that NVIDIA's driver would make.

Arguments: PATH:MAJOR:MINOR, as many as there are; all can be used by everybody, as NVIDIA's can.
"""

import os
import stat
import subprocess
import sys

DRIVER = "/var/lib/gpusim/root/proc/driver"
CAPABILITIES_MAJOR = 510


def make(path, major, minor):
    """One device node, unless there is one."""
    if not os.path.exists(path):
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        os.chmod(path, 0o666)


for argument in sys.argv[1:]:
    name, *numbers = argument.split(":")
    make(name, *map(int, numbers))
if os.path.isdir(DRIVER):
    # What the driver tells about MIG stands in /proc, where nobody else can put a file.
    subprocess.run(["mount", "--bind", DRIVER, "/proc/driver"], check=True)
    os.makedirs("/dev/nvidia-caps", exist_ok=True)
    with open(f"{DRIVER}/nvidia-caps/mig-minors", encoding="utf-8") as listed:
        for line in listed:
            minor = int(line.split()[1])
            make(f"/dev/nvidia-caps/nvidia-cap{minor}", CAPABILITIES_MAJOR, minor)
