"""apt and dpkg on this server: who holds their locks, and apt-get run so that it never asks.

Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import fcntl
import glob
import os
import re
import struct
import subprocess
import time

from ansible.module_utils.gpu_apt import installed_versions

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
    """Versions of installed packages by name, read from dpkg's own table."""
    with open("/var/lib/dpkg/status", encoding="utf-8", errors="replace") as handle:
        return installed_versions(handle.read())


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
    """Seconds since the package lists were fetched."""
    times = [os.path.getmtime(path) for path in glob.glob("/var/lib/apt/lists/*_*Packages*")]
    return time.time() - max(times) if times else float("inf")


class AptFailed(Exception):
    """apt could not do it, or somebody else kept its lock; `output` is what it said."""

    def __init__(self, message, output=""):
        super().__init__(message)
        self.output = output


def apt_get(arguments, lock_seconds):
    """Run apt-get; return its exit status and all that it said."""
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


def finish_interrupted_installation(everything=False):
    """Let dpkg finish what a killed run was in the middle of; apt refuses everything until then.

    `everything`: also packages that were unpacked and not configured, which apt tells by other
    means only.
    """
    if everything or glob.glob("/var/lib/dpkg/updates/[0-9]*"):
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


def apt_step(step, deadline, waited_seconds):
    """Run apt-get once nobody else holds its lock; return what it said.

    Raises:
        AptFailed: the message says why.
    """
    while True:
        if holder := wait_for_lock(deadline):
            raise AptFailed(
                f"Another package manager is at work: {holder}; waited {waited_seconds} seconds. "
                "Wait for it to end or stop it, then run again."
            )
        code, output = apt_get(step, max(1, int(deadline - time.monotonic())))
        if code == 0:
            return output
        # Someone took the lock between our look and apt's: wait on within the same deadline.
        if not re.search("Could not get lock|Unable to acquire the dpkg|Unable to lock", output):
            reason = (
                "\n".join(line for line in output.splitlines() if line.startswith(("E:", "W:")))
                or output[-800:]
            )
            raise AptFailed(f"apt-get {verb(step)} failed: {reason}", output)


def verb(step):
    """`install` or `update`: the first word that is no option."""
    return next((w for w in step if w in ("install", "update")), step[0])
