#!/usr/bin/python3
"""Runs on a local server at boot: the device nodes that NVIDIA's driver would make."""

import os
import stat
import sys

MAJOR, CONTROL_MINOR, UVM_MAJOR = 195, 255, 511


def node(path, major, minor):
    """Make one character device, readable by all as NVIDIA's are."""
    if not os.path.exists(path):
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        os.chmod(path, 0o666)


for index in range(int(sys.argv[1])):
    node(f"/dev/nvidia{index}", MAJOR, index)
node("/dev/nvidiactl", MAJOR, CONTROL_MINOR)
node("/dev/nvidia-uvm", UVM_MAJOR, 0)
