"""The facts of an upgrade: what the sources offer behind the freeze, what is frozen or unfinished.

Runs on the server as root; standard library only, Python 3.9 or newer. Holds and pins stay as they
are: apt is asked with copies of its preferences that lack ours.
"""

from __future__ import annotations

import json
import os
import tempfile

from ansible.module_utils import freeze
from ansible.module_utils.gpu_apt import all_installed
from ansible.module_utils.gpu_facts import SIMULATED_ROOT, gather_from
from ansible.module_utils.gpu_host import Host, run_command

MARKER = "/var/lib/gpuferry/upgrade.json"
PREFERENCES = "/etc/apt/preferences.d"
UPDATE_SECONDS = 300
# As the installation will run.
MOVES = ["--allow-change-held-packages", "--ignore-hold", "--allow-downgrades"]


def load(path):
    """A JSON file; empty when there is none, or it is damaged."""
    try:
        with open(path, encoding="utf-8") as handle:
            return dict(json.load(handle))
    except (OSError, ValueError):
        return {}


def thaw(folder):
    """Options of apt under which our pins do not count; `folder` takes links to all others."""
    for name in os.listdir(PREFERENCES) if os.path.isdir(PREFERENCES) else []:
        path = os.path.join(PREFERENCES, name)
        if path != freeze.PREFERENCES:
            os.symlink(path, os.path.join(folder, name))
    return ["-o", f"Dir::Etc::PreferencesParts={folder}"]


def thawed(options):
    """A command runner whose apt sees what the sources offer."""

    def run(argv, seconds):
        if argv[0] in ("apt-cache", "apt-get"):
            more = MOVES if argv[0] == "apt-get" and "install" in argv else []
            argv = [argv[0], *options, *more, *argv[1:]]
        return run_command(argv, seconds)

    return run


def look(simulate, families, refresh):
    """Facts, the frozen record, the marker, and how fetching the package lists went."""
    update = {"state": "ok", "out": ""}
    if refresh:
        argv = ["apt-get", "-q", "update", "-o", "APT::Update::Error-Mode=any"]
        update = run_command(argv, UPDATE_SECONDS)
    frozen, marker = load(freeze.RECORD), load(MARKER)
    members = freeze.members(families, all_installed(Host()))
    with tempfile.TemporaryDirectory() as folder:
        # apt reads as its own user.
        os.chmod(folder, 0o755)  # noqa: S103
        host = Host("/", thawed(thaw(folder)), None)
        if os.path.isdir(SIMULATED_ROOT):
            host.pci_root = SIMULATED_ROOT
        facts = gather_from(host, simulate, {*members, *frozen, *marker.get("old", {})})
    return {"facts": facts, "frozen": frozen, "members": members, "marker": marker,
            "update": update}  # fmt: skip


def main(request):
    """Print what :func:`look` found as one line of JSON."""
    asked = json.loads(request)
    found = look(asked["simulate"], asked["families"] or freeze.FAMILIES, asked["refresh"])
    print(json.dumps(found))  # noqa: T201
