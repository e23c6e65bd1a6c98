"""Runs on the server: is the CDI specification of the driver and the GPUs that are there now?"""

import json
import re
import subprocess


def said(*argv):
    """Output of a command that may hang; empty when it failed."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def wanted(listed):
    """UUIDs that `nvidia-smi -L` names; a GPU that is cut into MIG devices is not given whole."""
    found = []
    for kind, uuid in re.findall(r"UUID: ((?:GPU|MIG)-)([0-9a-f-]+)", listed):
        if kind == "MIG-" and found and found[-1].startswith("GPU-"):
            found.pop()
        found.append(kind + uuid)
    return set(found)


def is_fresh(text, listed, version):
    """Whether a specification's text has exactly these devices, and this driver's files."""
    names = {device["name"] for device in json.loads(text)["devices"]}
    here = {name for name in names if name.startswith(("GPU-", "MIG-"))}
    return bool(here) and here == wanted(listed) and f".so.{version}" in text


def main():
    """Print what `systemctl is-active` says, and `fresh`."""
    print(said("systemctl", "is-active", "nvidia-cdi-refresh.service").strip())
    version = said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split()
    try:
        with open("/etc/cdi/nvidia.json", encoding="utf-8") as handle:
            text = handle.read()
        if version and is_fresh(text, said("nvidia-smi", "-L"), version[0]):
            print("fresh")
    except (OSError, ValueError, KeyError):
        pass


if __name__ == "__main__":
    main()
