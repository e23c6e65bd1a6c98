#!/usr/bin/python
"""Install Debian packages, and name who holds dpkg when it is busy."""

from __future__ import annotations

import fcntl
import glob
import os
import re
import struct
import subprocess
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: debian_packages
short_description: Install Debian packages, and name who holds dpkg when it is busy
description:
  - Unlike the C(apt) module it needs no C(python3-apt), answers C(--check) on a server that has no
    package lists yet, costs milliseconds when nothing is missing, and says who holds the lock.
options:
  name:
    description: Packages to have installed.
    type: list
    elements: str
  refresh:
    description: Fetch the package lists first, also when they are recent (a source changed).
    type: bool
  lists_valid_seconds:
    description: Lists younger than this are good enough to install from.
    type: int
  lock_timeout_seconds:
    description: How long to wait for others that hold apt's or dpkg's lock.
    type: int
author: [gpuferry]
"""

LOCKS = (
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/lib/apt/lists/lock",
    "/var/cache/apt/archives/lock",
)
# The tail is padding: struct flock on 64-bit Linux.
FLOCK = "hhqqi4x"
UPDATE = ["update", "-o", "APT::Update::Error-Mode=any"]


def installed():
    """Names of installed packages, read from dpkg's own table."""
    names = set()
    with open("/var/lib/dpkg/status", encoding="utf-8", errors="replace") as handle:
        for block in handle.read().split("\n\n"):
            if re.search(r"^Status: \S+ ok installed$", block, re.M):
                name = re.search(r"^Package: (\S+)", block, re.M)
                if name:
                    names.add(name.group(1))
    return names


def lock_holder():
    """`dpkg (pid 7: dpkg --configure -a)` for the process that holds a lock, or an empty string."""
    for path in LOCKS:
        if not os.path.exists(path):
            continue
        with open(path, "rb+") as handle:
            answer = fcntl.fcntl(
                handle, fcntl.F_GETLK, struct.pack(FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0)
            )
        kind, _, _, _, process = struct.unpack(FLOCK, answer)
        if kind != fcntl.F_UNLCK:
            try:
                with open(f"/proc/{process}/cmdline", "rb") as handle:
                    command = handle.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            except OSError:
                command = "a process outside this server"
            return f"{path} is held by process {process} ({command[:120]})"
    return ""


def wait_for_lock(deadline):
    """Wait until nobody holds a lock; returns the holder's description when the deadline passes."""
    while holder := lock_holder():
        if time.monotonic() >= deadline:
            return holder
        time.sleep(0.5)
    return ""


def lists_age():
    times = [os.path.getmtime(path) for path in glob.glob("/var/lib/apt/lists/*_*Packages*")]
    return time.time() - max(times) if times else float("inf")


def apt_get(arguments, lock_seconds):
    command = [
        "apt-get",
        "-q",
        "-y",
        "-o",
        f"DPkg::Lock::Timeout={lock_seconds}",
        "-o",
        "Dpkg::Options::=--force-confdef",
        "-o",
        "Dpkg::Options::=--force-confold",
        "-o",
        "APT::Get::Assume-Yes=true",
        *arguments,
    ]
    # needrestart would ask, or restart services under running jobs.
    environment = {
        **os.environ,
        "DEBIAN_FRONTEND": "noninteractive",
        "NEEDRESTART_SUSPEND": "1",
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def finish_interrupted_installation():
    """Let dpkg finish what a killed run was in the middle of; apt refuses everything until then."""
    if glob.glob("/var/lib/dpkg/updates/[0-9]*"):
        subprocess.run(
            ["dpkg", "--configure", "-a", "--force-confdef", "--force-confold"],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def unknown_package(output):
    """Whether apt does not know a package, perhaps because its source is newer than the lists."""
    return "Unable to locate package" in output or "no installation candidate" in output


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "list", "elements": "str", "required": True},
            "refresh": {"type": "bool", "default": False},
            "lists_valid_seconds": {"type": "int", "default": 86400},
            "lock_timeout_seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    missing = sorted(set(wanted["name"]) - installed())
    if module.check_mode or not (missing or wanted["refresh"]):
        module.exit_json(changed=bool(missing), installed=missing)
    seconds = wanted["lock_timeout_seconds"]
    deadline = time.monotonic() + seconds
    output = ""
    steps = [UPDATE] if wanted["refresh"] or lists_age() > wanted["lists_valid_seconds"] else []
    if missing:
        steps.append(["install", "--no-install-recommends", *missing])
    finish_interrupted_installation()
    for step in steps:
        while True:
            if holder := wait_for_lock(deadline):
                module.fail_json(
                    msg=f"Another package manager is at work: {holder}; waited {seconds} seconds. "
                    "Wait for it to end or stop it, then run again."
                )
            code, output = apt_get(step, max(1, int(deadline - time.monotonic())))
            if code == 0:
                break
            # Someone took the lock between our look and apt's: wait on within the same deadline.
            if (
                "Could not get lock" in output
                or "Unable to acquire the dpkg" in output
                or "Unable to lock" in output
            ):
                continue
            # A killed run may have added a source without fetching its lists.
            if unknown_package(output) and UPDATE not in steps:
                steps = [UPDATE, *steps]
                apt_get(UPDATE, max(1, int(deadline - time.monotonic())))
                continue
            reason = (
                "\n".join(line for line in output.splitlines() if line.startswith(("E:", "W:")))
                or output[-800:]
            )
            module.fail_json(msg=f"apt-get {step[0]} failed: {reason}", output=output[-4000:])
    module.exit_json(changed=bool(missing), installed=missing, output=output[-2000:])


if __name__ == "__main__":
    main()
