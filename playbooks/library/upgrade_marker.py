#!/usr/bin/python
"""Remember an upgrade of the frozen set on the server, with a way back, until it is finished."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import time

from ansible.module_utils import freeze, gpu_use, kernel_removal
from ansible.module_utils.apt_run import AptFailed, apt_step, installed
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gpu_upgrade import MARKER, load

DOCUMENTATION = r"""
module: upgrade_marker
short_description: Remember an upgrade of the frozen set, with a way back, until it is finished
description:
  - C(begin) refuses while GPUs are in use, copies every package that will move in its present
    version (from its source, or packed again from what is installed), and then leaves the marker.
  - C(note) writes the phase down and holds all members again, since apt forgets the hold of what it
    was told to move. C(end) forgets everything.
options:
  state:
    description: begin, note or end.
    type: str
  moves:
    description: Package names to the versions that they shall have; empty for what shall go.
    type: dict
  phase:
    description: What is being done.
    type: str
  to:
    description: The wished branch or version.
    type: str
  reboot:
    description: Whether the new versions need a reboot.
    type: bool
  failing:
    description: Ids of the checks that fail before anything moves.
    type: list
    elements: str
  families:
    description: Regular expressions for the beginning of package names.
    type: list
    elements: str
  disturb:
    description: Begin also while GPUs are in use.
    type: bool
author: [gpuferry]
"""

FOLDER = "/var/lib/gpuferry/upgrade"
SECONDS = 600


class Refused(Exception):
    """Nothing was changed; the message says why."""


def write(marker):
    draft = f"{MARKER}.draft"
    with open(draft, "w", encoding="utf-8") as handle:
        json.dump(marker, handle, indent=1, sort_keys=True)
        os.fchmod(handle.fileno(), 0o644)
        os.fsync(handle.fileno())
    os.rename(draft, MARKER)


def pack(name, version, folder):
    """A package file of an installed version; returns its path."""
    into = os.path.join(folder, name)
    os.makedirs(into)
    said = []
    for argv in (["apt-get", "-q", "download", f"{name}={version}"], ["dpkg-repack", name]):
        if argv[0] == "dpkg-repack" and not shutil.which("dpkg-repack"):
            deadline = time.monotonic() + SECONDS
            apt_step(["install", "--no-install-recommends", "dpkg-repack"], deadline, SECONDS)
        done = subprocess.run(
            argv, cwd=into, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        files = glob.glob(os.path.join(glob.escape(into), "*.deb"))
        if done.returncode == 0 and len(files) == 1:
            return files[0]
        said.append((done.stderr or done.stdout).strip()[-200:])
    raise Refused(f"{name} {version} cannot be kept as a package file: {said[-1]}")


def begin(asked):
    if os.path.exists(MARKER):
        raise Refused("another upgrade of this server is unfinished; finish it, or --rollback")
    try:
        gpu_use.guard(["upgrade the frozen set"], allowed=asked["disturb"])
    except gpu_use.Disturbs as reason:
        raise Refused(str(reason)) from None
    have = installed()
    old = {name: have.get(name, "") for name in asked["moves"]}
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER, mode=0o755)
    # apt reads the files as its own user.
    os.chmod(FOLDER, 0o755)  # noqa: S103
    try:
        files = {name: pack(name, version, FOLDER) for name, version in old.items() if version}
    except (Refused, AptFailed) as reason:
        shutil.rmtree(FOLDER, ignore_errors=True)
        raise Refused(f"there would be no way back, so nothing was changed: {reason}") from None
    write({
        "phase": asked["phase"],
        "to": asked["to"],
        "old": old,
        "new": asked["moves"],
        "files": files,
        "auto": sorted(set(apt_mark("showauto")) & set(old)),
        "reboot": asked["reboot"],
        "failing": asked["failing"],
        "boot_id": boot_id(),
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    })  # fmt: skip


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
        return handle.read().strip()


def apt_mark(*words):
    done = subprocess.run(["apt-mark", *words], check=True, capture_output=True, text=True)
    return done.stdout.split()


def note(asked):
    marker = {**load(MARKER), "phase": asked["phase"]}
    write(marker)
    have = installed()
    if members := list(freeze.members(asked["families"] or freeze.FAMILIES, have)):
        apt_mark("hold", *members)
    # What is named to apt counts as chosen by a person from then on.
    if auto := [name for name in marker["auto"] if name in have]:
        apt_mark("auto", *auto)


def end():
    # A killed rollback may have left it allowed.
    kernel_removal.forbid()
    if os.path.exists(MARKER):
        os.unlink(MARKER)
    shutil.rmtree(FOLDER, ignore_errors=True)


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"choices": ["begin", "note", "end"], "required": True},
            "moves": {"type": "dict", "default": {}},
            "phase": {"default": ""},
            "to": {"default": ""},
            "families": {"type": "list", "elements": "str", "default": []},
            "reboot": {"type": "bool", "default": False},
            "failing": {"type": "list", "elements": "str", "default": []},
            "disturb": {"type": "bool", "default": False},
        },
    )
    asked = module.params
    try:
        {"begin": lambda: begin(asked), "note": lambda: note(asked), "end": end}[asked["state"]]()
    except Refused as reason:
        module.fail_json(msg=str(reason))
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
