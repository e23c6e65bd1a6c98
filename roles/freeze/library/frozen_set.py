#!/usr/bin/python
"""Freeze packages at the versions they have, in every place that could move them."""

from __future__ import annotations

import json
import os
import subprocess

from ansible.module_utils import freeze
from ansible.module_utils.apt_run import installed
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: frozen_set
short_description: Freeze packages at the versions they have, in every place that could move them
description:
  - Records the installed members of the families with their versions, holds them (apt-mark), pins
    them (apt preferences), and tells unattended-upgrades and needrestart to leave them alone.
  - A member whose version has changed since is reported and stays recorded as it was.
options:
  families:
    description: Regular expressions for the beginning of package names.
    type: list
    elements: str
  services:
    description: Services that needrestart must not restart.
    type: list
    elements: str
  renew:
    description: Take the present versions as the frozen ones.
    type: bool
author: [gpuferry]
"""


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def read(path):
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read()
    except OSError:
        return None


def recorded():
    try:
        return dict(json.loads(read(freeze.RECORD) or "{}"))
    except ValueError:
        return {}


def write(path, text):
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    draft = f"{path}.gpuferry-draft"
    with open(draft, "w", encoding="utf-8") as handle:
        handle.write(text)
        os.fchmod(handle.fileno(), 0o644)
        os.fsync(handle.fileno())
    os.rename(draft, path)


def main():
    module = AnsibleModule(
        argument_spec={
            "families": {"type": "list", "elements": "str", "required": True},
            "services": {"type": "list", "elements": "str", "required": True},
            "renew": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    asked = module.params
    present = freeze.members(asked["families"], installed())
    frozen = freeze.record(recorded(), present, asked["renew"])
    files = {
        freeze.RECORD: json.dumps(frozen, indent=1, sort_keys=True) + "\n",
        freeze.PREFERENCES: freeze.preferences(frozen),
        freeze.APT_CONF: freeze.apt_conf(asked["families"]),
        freeze.NEEDRESTART: freeze.needrestart(asked["services"]),
    }
    writing = [path for path, text in files.items() if read(path) != text]
    holding = sorted(set(present) - set(run("apt-mark", "showhold").split()))
    if not module.check_mode:
        for path in writing:
            write(path, files[path])
        if holding:
            run("apt-mark", "hold", *holding)
    module.exit_json(
        changed=bool(writing or holding),
        files=writing,
        held=holding,
        moved=freeze.moved(frozen, present),
    )


if __name__ == "__main__":
    main()
