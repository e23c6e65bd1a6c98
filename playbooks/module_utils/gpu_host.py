"""The one layer that facts about a server are read through, and that remembers what was read.

Runs on the server; standard library only, Python 3.9 or newer. A folder stands for `/`, another
one may stand for the PCI tree, and commands go through a runner with a deadline.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import signal
import subprocess
import tempfile

# A hung nvidia-smi waits in the kernel for ever; what healthy ones need is a second or two.
DEADLINE_SECONDS = 10
HUNG, ABSENT = "hung", "absent"


def run_command(argv, seconds=DEADLINE_SECONDS):
    """Run a command; return `{"state", "code", "out"}`, state ok, failed, absent or hung.

    A process that cannot be ended (state D) is left behind: waiting for it would hang as well.
    """
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    with tempfile.TemporaryFile() as out:
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env=environment, start_new_session=True,
            )  # fmt: skip
        except OSError:
            return {"state": ABSENT, "code": None, "out": ""}
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            end_politely(child)
            return {"state": HUNG, "code": None, "out": ""}
        out.seek(0)
        text = out.read().decode("utf-8", "replace")
    return {"state": "ok" if code == 0 else "failed", "code": code, "out": text}


def end_politely(child):
    """SIGTERM, a moment, SIGKILL, a moment.

    NVML clients that are killed at once may leave a GPU frozen (NVIDIA/dcgm-exporter#84).
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            child.wait(2)
        except subprocess.TimeoutExpired:
            continue
        except OSError:
            pass
        return


class Host:
    """The layer that everything is read through; it remembers what was read."""

    def __init__(self, root="/", run=run_command, pci_root=None):
        self.root, self.runner = root, run
        self.pci_root = pci_root or root
        self.files, self.links, self.commands, self.folders = {}, {}, {}, {}

    def _at(self, path):
        base = self.pci_root if path.startswith("/sys/bus/pci") else self.root
        return os.path.join(base, path.lstrip("/"))

    def read(self, path, limit=200_000):
        """Text of a file, None when it cannot be read."""
        try:
            with open(self._at(path), "rb") as handle:
                text = handle.read(limit).decode("latin-1" if path.endswith("/config") else "utf-8",
                                                 "replace")  # fmt: skip
        except (OSError, ValueError):
            return None
        self.files[path] = mask(text)
        return text

    def link(self, path):
        """Last part of where a link leads, or an empty string."""
        try:
            target = os.readlink(self._at(path))
        except OSError:
            return ""
        self.links[path] = target
        return os.path.basename(target)

    def list(self, pattern):
        """Paths (as on the server) that match."""
        base = self.pci_root if pattern.startswith("/sys/bus/pci") else self.root
        found = glob.glob(os.path.join(glob.escape(base), pattern.lstrip("/")))
        paths = sorted("/" + os.path.relpath(path, base) for path in found)
        self.folders[pattern] = paths
        return paths

    def exists(self, path):
        """Whether something is there."""
        return bool(self.list(path))

    def run(self, argv, seconds=DEADLINE_SECONDS):
        """Run a command with a deadline."""
        key = shlex.join(argv)
        if key not in self.commands:
            self.commands[key] = self.runner(argv, seconds)
            self.commands[key]["out"] = mask(self.commands[key]["out"])
        return self.commands[key]

    def output(self, argv):
        """Standard output when the command succeeded, else an empty string."""
        done = self.run(argv)
        return done["out"] if done["state"] == "ok" else ""

    def recording(self):
        """All that was read: what a folder of fixtures is written from."""
        return {key: getattr(self, key) for key in ("files", "links", "commands", "folders")}


def mask(text):
    """Take user names and passwords out of addresses, and everything of apt's `auth` kind."""
    return re.sub(r"://[^/\s@]+@", "://***@", text)
