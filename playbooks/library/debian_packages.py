#!/usr/bin/python
"""Install Debian packages, and name who holds dpkg when it is busy."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import time

from ansible.module_utils import disturb, freeze, gpu_use, kernel_removal
from ansible.module_utils.apt_run import (
    UPDATE,
    AptFailed,
    apt_step,
    finish_interrupted_installation,
    installed,
    lists_age,
    unknown_package,
)
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
  files:
    description: Package files by name, to be taken instead of what the sources offer.
    type: dict
  absent:
    description: Packages to be removed in the same run of apt.
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
  families:
    description: >
      Regular expressions for the beginning of package names. Members are held by that very run of
      apt, also when it fails and nobody is there any more to hold them.
    type: list
    elements: str
  removes_running_kernel:
    description: The running kernel may be among C(absent) (the way back from another one).
    type: bool
  disturb:
    description: >
      Change packages of the frozen families, or such whose scripts reload the daemon manager,
      although GPUs are in use. Otherwise that is refused before anything is installed.
    type: bool
  lock_timeout_seconds:
    description: How long to wait for others that hold apt's or dpkg's lock.
    type: int
author: [gpuferry]
"""

# A held package that another replaces would block apt's resolver, even where its change is allowed.
MOVES_FROZEN = ["--allow-change-held-packages", "--ignore-hold", "--allow-downgrades"]
# apt hands over the packages that it is about to unpack, dependencies included, and stops when
# this fails (apt.conf(5), DPkg::Pre-Install-Pkgs). update-rc.d reloads, too.
RELOADS = """
bad=; while read -r deb; do
  for part in preinst postinst prerm postrm; do
    if dpkg-deb -I "$deb" "$part" 2>/dev/null | grep -Eq "daemon-re(load|exec)|update-rc\\.d"; then
      bad="$bad $(basename "$deb" | cut -d_ -f1)"; break
    fi
  done
done
test -z "$bad" || { echo "gpuferry-reloads:$bad"; exit 1; }
"""

# dpkg's own words, since apt-mark names nothing at all when it cannot locate one. A failure here
# would hide how the installation ended.
HOLD = (
    "dpkg-query -W -f '${binary:Package} ${db:Status-Status}\\n' NAMES 2>/dev/null"
    " | sed -nE '/ (not-installed|config-files)$/!s/ .*/ hold/p' | dpkg --set-selections || true"
)


def due(wanted):
    """Arguments of apt for what is not so yet: `name`, `name=version`, a file, or `name-`."""
    have = installed()
    files = wanted["files"] or {}
    arguments = []
    for entry in sorted(set(wanted["name"])):
        name, *version = entry.split("=", 1)
        if name not in have or (version and have[name] != version[0]):
            arguments.append(files.get(name, entry))
    return arguments + [f"{name}-" for name in sorted(wanted["absent"] or []) if name in have]


def beside(output, guard):
    """What a simulated run of apt would do beside installing, in words; empty when nothing."""
    removed = set(re.findall(r"^Remv (\S+)", output, re.M)) - set(guard.get("removes") or [])
    kernels = re.findall(r"^Inst (linux-image-\d\S*)", output, re.M)
    said = [f"remove {', '.join(sorted(removed))}"] if removed else []
    if kernels and not guard.get("kernel"):
        said.append(f"install another kernel ({', '.join(kernels)})")
    return " and ".join(said)


def expected(missing):
    """What installing these would interrupt, as far as it can be told without asking apt."""
    names = {entry.split("=", 1)[0]: "" for entry in missing}
    members = freeze.members(freeze.FAMILIES, names)
    others = sorted(names.keys() - members)
    perhaps = f"perhaps {disturb.RELOAD} (packages: {', '.join(others)})" if others else ""
    return gpu_use.guard([disturb.package_effect(members), perhaps], check_mode=True)


def touched(output):
    """Members of the frozen families that a simulated run would install, move or remove."""
    names = re.findall(r"^(?:Inst|Remv) (\S+)", output, re.M)
    return sorted(freeze.members(freeze.FAMILIES, dict.fromkeys(names, "")))


def holding(wanted):
    """A command that holds what apt just moved, whatever state it is left in.

    It names the packages, since apt forgets the hold of those only that it was told to move.
    """
    names = {entry.split("=", 1)[0]: "" for entry in [*wanted["name"], *(wanted["absent"] or [])]}
    members = freeze.members(wanted["families"] or freeze.FAMILIES, {**installed(), **names})
    return HOLD.replace("NAMES", " ".join(shlex.quote(name) for name in members))


def steps_for(missing, wanted):
    """Runs of apt-get, by their arguments."""
    steps = [UPDATE] if wanted["refresh"] or lists_age() > wanted["lists_valid_seconds"] else []
    install = ["install", "--no-install-recommends"]
    install += MOVES_FROZEN if wanted["moves_frozen"] else []
    if missing and (wanted["guard"] is not None or wanted["users"]):
        steps.append([*install, "--simulate", *missing])
    if wanted["families"] is not None and missing:
        install += ["-o", f"DPkg::Post-Invoke::={holding(wanted)}"]
    if wanted["users"]:
        install += ["-o", f"DPkg::Pre-Install-Pkgs::={RELOADS}"]
    return [*steps, [*install, *missing]] if missing else steps


def judge(output, missing, wanted):
    """Refuse what apt says it would do beside what is asked, or to GPU work."""
    if wanted["guard"] is not None and (harm := beside(output, wanted["guard"])):
        raise AptFailed(
            f"Installing {', '.join(missing)} would {harm}; nothing was changed. "
            "Allow it in the stack file (driver.allow), or choose other packages."
        )
    if harm := disturb.refusal([disturb.package_effect(touched(output))], wanted["users"]):
        raise AptFailed(harm)


def run(missing, wanted):
    """Install; return what apt said last.

    Raises:
        AptFailed: the message says why.
    """
    seconds = wanted["lock_timeout_seconds"]
    deadline = time.monotonic() + seconds
    output = ""
    steps = steps_for(missing, wanted)
    for step in steps:
        while True:
            try:
                output = apt_step(step, deadline, seconds)
            except AptFailed as failure:
                if reloading := re.search(r"^gpuferry-reloads: (.*)$", failure.output, re.M):
                    effect = f"{disturb.RELOAD} (packages: {reloading.group(1)})"
                    raise AptFailed(disturb.refusal([effect], wanted["users"])) from None
                # A killed run may have added a source without fetching its lists.
                if not unknown_package(failure.output) or UPDATE in steps:
                    raise
                steps = [UPDATE, *steps]
                apt_step(UPDATE, deadline, seconds)
            else:
                break
        if "--simulate" in step:
            judge(output, missing, wanted)
    return output


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "list", "elements": "str", "required": True},
            "files": {"type": "dict"},
            "absent": {"type": "list", "elements": "str"},
            "refresh": {"type": "bool", "default": False},
            "lists_valid_seconds": {"type": "int", "default": 86400},
            "guard": {"type": "dict"},
            "moves_frozen": {"type": "bool", "default": False},
            "families": {"type": "list", "elements": "str"},
            "removes_running_kernel": {"type": "bool", "default": False},
            "lock_timeout_seconds": {"type": "int", "default": 300},
            "disturb": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    missing = due(wanted)
    if module.check_mode or not (missing or wanted["refresh"]):
        module.exit_json(changed=bool(missing), installed=missing, disturbs=expected(missing))
    wanted["users"] = gpu_use.users() if missing and not wanted["disturb"] else []
    try:
        if not wanted["users"]:
            finish_interrupted_installation(everything=wanted["moves_frozen"])
        asks = kernel_removal.removes_running(wanted["absent"] or [], os.uname().release)
        with contextlib.ExitStack() as stack:
            if asks and wanted["removes_running_kernel"]:
                stack.enter_context(kernel_removal.allowed())
            output = run(missing, wanted)
    except AptFailed as failure:
        module.fail_json(msg=str(failure), output=failure.output[-4000:])
    module.exit_json(changed=bool(missing), installed=missing, output=output[-2000:])


if __name__ == "__main__":
    main()
