#!/usr/bin/python
"""Put a set of files in place, all or none, and bring them into force."""

from __future__ import annotations

import fnmatch
import json
import shlex
import time

from ansible.module_utils import disturb, gpu_use
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.file_state import Entry, Refused, put
from ansible.module_utils.rollback import Rollback, anything_pending, run

DOCUMENTATION = r"""
module: apply_files
short_description: Put a set of files in place, all or none, and bring them into force
description:
  - One call for what would otherwise be a copy, a validate and a handler task for each file,
    because the number of tasks is what a run costs.
  - Nothing is written unless every candidate passes its C(validate). If a later step fails, every
    file is put back as it was.
options:
  files:
    description: >
      Each has a C(path) and one of C(content), C(lines), C(link), C(directory), C(absent).
    type: list
    elements: dict
  apply:
    description: >
      Commands that bring files into force. Each runs when one of C(paths) changed in this call,
      or when its C(unless) (a read-only command) does not hold; afterwards C(unless) has to hold.
    type: list
    elements: dict
  verify:
    description: >
      Read-only commands whose output must hold C(lines), run on every call before C(apply).
    type: list
    elements: dict
  disturb:
    description: >
      Run commands that would interrupt GPU work (reload the daemon manager, restart Docker) while
      there is some. Otherwise that is refused before any file is written.
    type: bool
  rollback:
    description: >
      A timer on the server that puts the files back and runs C(commands) unless the caller stops
      it; a restart of the server before that puts the files back, too. Armed before the first write
      where one of C(paths) changes; C(unconfirmed) in the result says that it is pending.
    type: dict
author: [gpuferry]
"""

UNAPPLIED = "/var/lib/gpuferry/unapplied.json"
SETTLE_SECONDS = 10


def unmet(condition):
    """Why a read-only condition does not hold, or an empty string."""
    code, out, err = run(condition["command"])
    asked = condition["label"] or f"`{shlex.join(condition['command'])}`"
    if code != 0:
        return f"{asked} failed: {(err or out).strip()[-600:]}"
    have = [" ".join(line.split()) for line in out.splitlines()]
    for line in condition["lines"] or []:
        if " ".join(line.split()) not in have:
            key = line.split("=")[0].split()[0]
            seen = [entry for entry in have if entry.split("=")[0].split()[:1] == [key]]
            if not seen and condition["ignore_missing"]:
                continue
            said = "; ".join(seen) or f"nothing about {key}"
            return f"{asked} says `{said}` where `{line}` is wanted"
    for line in have if condition["only"] else []:
        if (
            line.split()[:1]
            and line.split()[0] in condition["only"]
            and line not in (condition["lines"] or [])
        ):
            return f"{asked} says `{line}`, which is not declared"
    if condition["same_as"]:
        code, other, err = run(condition["same_as"])
        if code != 0 or other != out:
            return f"{asked} differs from what is declared {err.strip()}"
    return ""


def validate(entries):
    for entry in entries:
        if entry.raw["validate"] and entry.after and entry.after[0] == "file":
            with entry.candidate() as handle:
                code, out, err = run(
                    [handle.name if word == "%s" else word for word in entry.raw["validate"]]
                )
            if code != 0:
                reason = (err or out).strip()[-800:]
                raise Refused(
                    f"{entry.path} would not be accepted, so nothing was changed: {reason}"
                )


class Unapplied:
    """Commands that were due when a run was killed between writing files and running them.

    The next run finds the files as wanted, so nothing else would tell it that they are not yet in
    force.
    """

    def __init__(self, path=UNAPPLIED):
        self.path = path

    def commands(self):
        """The commands that are owed."""
        try:
            with open(self.path) as handle:
                return json.load(handle)
        except (OSError, ValueError):
            return []

    def note(self, steps):
        """Remember that these are about to be due."""
        owed = self.commands()
        new = [step["command"] for step in steps if step["command"] not in owed]
        if new:
            self._write(owed + new)

    def done(self, steps):
        """Forget these: they have run."""
        finished = [step["command"] for step in steps]
        if finished:
            self._write([command for command in self.commands() if command not in finished])

    def _write(self, commands):
        if commands:
            put(self.path, ("file", json.dumps(commands).encode(), 0o600, 0, 0))
        else:
            put(self.path, None)


def due(steps, paths):
    """The steps that have to run.

    A file of theirs changed, their condition does not hold, or a killed run owes them.
    """
    wanted = []
    owed = Unapplied().commands()
    for step in steps:
        patterns = step["paths"] or ["*"]
        touched = any(fnmatch.fnmatch(path, pattern) for path in paths for pattern in patterns)
        if touched or step["command"] in owed or (step["unless"] and unmet(step["unless"])):
            wanted.append(step)
    return wanted


def effects(steps):
    """What the commands would do to GPU work, each with its command."""
    found = [(step["command"], disturb.effect(step["command"])) for step in steps]
    return [f"{said} (`{shlex.join(command)[:120]}`)" for command, said in found if said]


def enforce(steps):
    for step in steps:
        code, out, err = run(step["command"])
        if code != 0:
            raise Refused(f"`{shlex.join(step['command'])}` failed: {(err or out).strip()[-800:]}")
    for step in steps:
        deadline = time.monotonic() + SETTLE_SECONDS
        while step["unless"] and (reason := unmet(step["unless"])):
            if time.monotonic() > deadline:
                raise Refused(f"`{shlex.join(step['command'])}` ran but is not in force: {reason}")
            time.sleep(0.2)


def converge(entries, steps, verify, rollback, allowed=False):
    """Write, verify, bring into force; undo all of it when a step fails."""
    changed = [entry for entry in entries if entry.changed]
    validate(changed)
    steps_due = due(steps, [entry.path for entry in changed])
    try:
        gpu_use.guard(effects(steps_due), allowed=allowed)
    except gpu_use.Disturbs as reason:
        raise Refused(str(reason)) from None
    armed = rollback if rollback and rollback.wanted(changed, steps_due) else None
    if armed:
        armed.arm(changed)
    activated = False
    unapplied = Unapplied()
    unapplied.note(steps_due)
    try:
        for entry in changed:
            put(entry.path, entry.after)
        for condition in verify:
            if reason := unmet(condition):
                raise Refused(reason)
        activated = bool(steps_due)
        enforce(steps_due)
        unapplied.done(steps_due)
    except (Refused, OSError) as error:
        take_back(changed, armed, activated)
        unapplied.done(steps_due)
        state = "; every file is back as it was" if changed else ""
        raise Refused(f"{error}{state}") from error
    return changed, steps_due


def take_back(changed, armed, activated):
    """Put every file back, and out of force what was brought into force.

    Nothing else: a reload for nothing would bring in what others wrote, such as the very setting
    that was just refused.
    """
    for entry in reversed(changed):
        put(entry.path, entry.before)
    if armed and activated:
        armed.undo()
    elif armed:
        armed.disarm()


CONDITION = {
    "command": {"type": "list", "elements": "str", "required": True},
    "lines": {"type": "list", "elements": "str"},
    "same_as": {"type": "list", "elements": "str"},
    "only": {"type": "list", "elements": "str"},
    "label": {"type": "str"},
    "ignore_missing": {"type": "bool", "default": False},
}
ARGUMENTS = {
    "files": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "path", "required": True},
            "content": {"type": "str"},
            "lines": {"type": "list", "elements": "str"},
            "link": {"type": "str"},
            "directory": {"type": "bool", "default": False},
            "absent": {"type": "bool", "default": False},
            "mode": {"type": "str"},
            "owner": {"type": "str", "default": "root"},
            "group": {"type": "str"},
            "validate": {"type": "list", "elements": "str"},
        },
    },
    "apply": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "command": {"type": "list", "elements": "str", "required": True},
            "paths": {"type": "list", "elements": "str"},
            "unless": {"type": "dict", "options": CONDITION},
        },
    },
    "verify": {"type": "list", "elements": "dict", "default": [], "options": CONDITION},
    "disturb": {"type": "bool", "default": False},
    "rollback": {
        "type": "dict",
        "options": {
            "unit": {"type": "str", "required": True},
            "after_seconds": {"type": "int", "required": True},
            "paths": {"type": "list", "elements": "str"},
            "commands": {"type": "list", "elements": "list", "required": True},
        },
    },
}


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    parameters = module.params
    disturbs = []
    try:
        entries = [Entry(raw, module.check_mode) for raw in parameters["files"]]
        rollback = Rollback(parameters["rollback"]) if parameters["rollback"] else None
        if module.check_mode:
            changed = [entry for entry in entries if entry.changed]
            steps = due(parameters["apply"], [entry.path for entry in changed])
            disturbs = gpu_use.guard(effects(steps), check_mode=True)
            if not changed:
                for condition in parameters["verify"]:
                    if reason := unmet(condition):
                        raise Refused(reason)
        else:
            changed, steps = converge(
                entries, parameters["apply"], parameters["verify"], rollback, parameters["disturb"]
            )
    except Refused as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(changed or steps),
        paths=[entry.path for entry in changed],
        commands=[shlex.join(step["command"]) for step in steps],
        disturbs=disturbs,
        unconfirmed=bool(rollback and not module.check_mode and anything_pending()),
        diff=[entry.diff() for entry in changed] if module._diff else [],
    )


if __name__ == "__main__":
    main()
