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
    description: Packages to have installed, C(name) in any version or C(name=version) in that one.
    type: list
    elements: str
  refresh:
    description: Fetch the package lists first, also when they are recent (a source changed).
    type: bool
  lists_valid_seconds:
    description: Lists younger than this are good enough to install from.
    type: int
  guard:
    description: >
      Let apt try first, and refuse what it would do beside installing. C(removes) lists packages
      that may go, C(kernel) says whether another kernel may come.
    type: dict
  moves_frozen:
    description: The packages may be held and may go back to an older version (a wanted upgrade).
    type: bool
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
MOVES_FROZEN = ["--allow-change-held-packages", "--allow-downgrades"]
UPDATE = ["update", "-o", "APT::Update::Error-Mode=any"]


def installed():
    """Versions of installed packages by name, read from dpkg's own table."""
    versions = {}
    with open("/var/lib/dpkg/status", encoding="utf-8", errors="replace") as handle:
        for block in handle.read().split("\n\n"):
            if re.search(r"^Status: \S+ ok installed$", block, re.M):
                name = re.search(r"^Package: (\S+)", block, re.M)
                version = re.search(r"^Version: (\S+)", block, re.M)
                if name and version:
                    versions[name.group(1)] = version.group(1)
    return versions


def absent(wanted):
    """Those of `name` and `name=version` that are not installed so."""
    have = installed()
    parts = {entry: entry.split("=", 1) for entry in sorted(set(wanted))}
    return [
        entry
        for entry, (name, *version) in parts.items()
        if name not in have or (version and have[name] != version[0])
    ]


def beside(output, guard):
    """What a simulated run of apt would do beside installing, in words; empty when nothing."""
    removed = set(re.findall(r"^Remv (\S+)", output, re.M)) - set(guard.get("removes") or [])
    kernels = re.findall(r"^Inst (linux-image-\d\S*)", output, re.M)
    said = [f"remove {', '.join(sorted(removed))}"] if removed else []
    if kernels and not guard.get("kernel"):
        said.append(f"install another kernel ({', '.join(kernels)})")
    return " and ".join(said)


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


def steps_for(missing, wanted):
    """Runs of apt-get, by their arguments."""
    steps = [UPDATE] if wanted["refresh"] or lists_age() > wanted["lists_valid_seconds"] else []
    install = ["install", "--no-install-recommends"]
    install += MOVES_FROZEN if wanted["moves_frozen"] else []
    if missing and wanted["guard"] is not None:
        steps.append([*install, "--simulate", *missing])
    return [*steps, [*install, *missing]] if missing else steps


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "list", "elements": "str", "required": True},
            "refresh": {"type": "bool", "default": False},
            "lists_valid_seconds": {"type": "int", "default": 86400},
            "guard": {"type": "dict"},
            "moves_frozen": {"type": "bool", "default": False},
            "lock_timeout_seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    missing = absent(wanted["name"])
    if module.check_mode or not (missing or wanted["refresh"]):
        module.exit_json(changed=bool(missing), installed=missing)
    seconds = wanted["lock_timeout_seconds"]
    deadline = time.monotonic() + seconds
    output = ""
    steps = steps_for(missing, wanted)
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
                if "--simulate" in step and (harm := beside(output, wanted["guard"])):
                    module.fail_json(
                        msg=f"Installing {', '.join(missing)} would {harm}; nothing was changed. "
                        "Allow it in the stack file (driver.allow), or choose other packages."
                    )
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
