#!/usr/bin/python3
"""Runs on a local server at boot: the device nodes that NVIDIA's driver would make.

Arguments: PATH:MAJOR:MINOR, as many as there are; all can be used by everybody, as NVIDIA's can.
"""

import os
import stat
import sys

for argument in sys.argv[1:]:
    path, major, minor = argument.split(":")
    if not os.path.exists(path):
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(int(major), int(minor)))
        os.chmod(path, 0o666)
