"""Debian packages that the local provider uses on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable

from gpuferry.errors import PrerequisiteMissing

# Program to (package, why). A program that is there already, from wherever, is used.
PROGRAMS = {
    "dockerd": ("docker.io", "is the Docker engine"),
    "docker": ("docker.io", "talks to the Docker engine"),
    "iptables": ("iptables", "is what the Docker engine routes with"),
    "mmdebstrap": ("mmdebstrap", "builds the node image"),
    "mkfs.ext4": ("e2fsprogs", "makes data disks"),
    "resize2fs": ("e2fsprogs", "grows data disks"),
    "mount": ("mount", "attaches data disks"),
    "ssh": ("openssh-client", "reaches servers"),
    "gcc": ("gcc", "builds the library of simulated GPUs"),
    "make": ("make", "builds the library of simulated GPUs"),
    # The C library's headers are no program; this one comes with them.
    "gencat": ("libc6-dev", "comes with the headers that gcc needs"),
}
# What `ferry check --security` measures with, on this machine.
_MEASURES = {
    "nmap": ("nmap", "looks at all ports of a server"),
    "lynis": ("lynis", "audits a server"),
}
# What commands bring when they are first used.
_ON_DEMAND = {
    "restic": ("restic", "encrypts data sets before they leave"),
    "age": ("age", "opens encrypted logs"),
}
# What only tests need.
_TESTS = {
    "chromium": ("chromium", "draws the audit's report"),
    # Without a font the report's text has no width; this one comes with its settings.
    "fc-match": ("fontconfig", "finds fonts for the browser"),
}
TESTERS = tuple(_MEASURES)
BROWSER = tuple(_TESTS)
COMPILER = ("gcc", "make", "gencat")
_LOCK_WAIT_SECONDS = 300


def missing(programs: Iterable[str] = PROGRAMS) -> list[str]:
    """Packages whose programs are not there."""
    known = {**PROGRAMS, **_MEASURES, **_ON_DEMAND, **_TESTS}
    return sorted({known[program][0] for program in programs if not shutil.which(program)})


def install_missing(say: Callable[[str], None], programs: Iterable[str] = PROGRAMS) -> None:
    """Install what is missing of some programs with apt.

    Raises:
        PrerequisiteMissing: no apt here, or apt failed; names the packages.
    """
    wanted = missing(programs)
    if not wanted:
        return
    if shutil.which("apt-get") is None:
        raise PrerequisiteMissing(
            f"These are missing: {', '.join(wanted)}. This machine has no apt; install them with "
            "its own package manager and run this again."
        )
    say(f"installing {', '.join(wanted)} (about {60 if 'chromium' in wanted else 20} s)")
    _apt("update", "-q")
    _apt("install", "-q", "-y", "--no-install-recommends", *wanted)
    if still := missing(programs):
        raise PrerequisiteMissing(f"apt installed {', '.join(still)}, but programs are missing.")


def _apt(*arguments: str) -> None:
    command = ["apt-get", "-o", f"DPkg::Lock::Timeout={_LOCK_WAIT_SECONDS}", *arguments]
    done = subprocess.run(
        command,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise PrerequisiteMissing(
            f"apt-get {arguments[0]} failed: {(errors or ['no reason given'])[0]} "
            "Mend apt on this machine and run this again."
        )
