#!/usr/bin/python
"""Merge settings into Docker's daemon.json and bring them into force without ending containers."""

from __future__ import annotations

import copy
import grp
import json
import os
import shutil
import subprocess
import tempfile
import time

from ansible.module_utils import disturb, gpu_use
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: docker_daemon
short_description: Merge settings into Docker's daemon.json without ending containers
description:
  - Keys of others stay. A file that is no JSON is set aside and written anew. A key that the unit
    sets as a flag too is refused by name, since Docker would not start. The new file is validated
    where dockerd can, and put back if Docker does not come up with it.
  - Docker is reloaded where that is enough. It is restarted only if running containers live
    through it (live-restore) or none runs. Without Docker installed only the file is written, so
    that the package's first start reads it.
options:
  settings:
    description: Keys to have in daemon.json.
    type: dict
  members:
    description: Accounts to have in the group docker.
    type: list
    elements: str
  restart:
    description: Something else that needs a restart has changed (the unit's environment).
    type: bool
  disturb:
    description: Restart Docker also while GPUs are in use; otherwise that is refused.
    type: bool
author: [gpuferry]
"""

PATH = "/etc/docker/daemon.json"
# What dockerd takes over on SIGHUP; everything else needs a restart.
RELOADABLE = {
    "allow-nondistributable-artifacts",
    "authorization-plugins",
    "debug",
    "default-runtime",
    "features",
    "insecure-registries",
    "labels",
    "live-restore",
    "max-concurrent-downloads",
    "max-concurrent-uploads",
    "max-download-attempts",
    "registry-mirrors",
    "runtimes",
    "shutdown-timeout",
}
# Flags whose name in the file is another (plural) one.
PLURAL = {
    "host": "hosts",
    "log-opt": "log-opts",
    "storage-opt": "storage-opts",
    "exec-opt": "exec-opts",
    "label": "labels",
    "registry-mirror": "registry-mirrors",
    "insecure-registry": "insecure-registries",
    "dns-opt": "dns-opts",
    "add-runtime": "runtimes",
    "default-ulimit": "default-ulimits",
    "authorization-plugin": "authorization-plugins",
}
SHORT = {
    "-H": "host",
    "-D": "debug",
    "-l": "log-level",
    "-G": "group",
    "-b": "bridge",
    "-s": "storage-driver",
    "-p": "pidfile",
}
START_SECONDS = 60


class Refused(Exception):
    """Docker and its settings are as they were; the message says why."""


def run(*argv):
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout.strip()


def merge(base, extra):
    """`extra` laid over `base`; dictionaries are merged, everything else is replaced."""
    merged = copy.deepcopy(base)
    for key, value in extra.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def read():
    """The text of daemon.json and its settings; settings are None if the text is no JSON object."""
    try:
        with open(PATH, encoding="utf-8") as handle:
            text = handle.read()
    except FileNotFoundError:
        return None, {}
    except UnicodeDecodeError:
        return "", None
    try:
        settings = json.loads(text) if text.strip() else {}
    except ValueError:
        return text, None
    return text, settings if isinstance(settings, dict) else None


def write(text):
    if text is None:
        if os.path.exists(PATH):
            os.unlink(PATH)
        return
    os.makedirs(os.path.dirname(PATH), exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(PATH))
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        handle.write(text)
        os.fchmod(handle.fileno(), 0o644)
    os.rename(temporary, PATH)


def flags():
    """Keys that the unit passes to dockerd on its command line."""
    _, unit = run("systemctl", "show", "--property=ExecStart", "--value", "docker.service")
    words = unit.split()
    try:
        with open("/etc/default/docker", encoding="utf-8") as handle:
            options = [
                line.split("=", 1)[1].strip().strip("\"'")
                for line in handle
                if line.startswith("DOCKER_OPTS=")
            ]
    except OSError:
        options = []
    if "$DOCKER_OPTS" in words:
        words += " ".join(options).split()
    names = set()
    for word in words:
        name = SHORT.get(word[:2]) if not word.startswith("--") else word[2:].split("=")[0]
        if name:
            names.add(PLURAL.get(name, name))
    return names


def active():
    return run("systemctl", "is-active", "--quiet", "docker.service")[0] == 0


def info(template):
    code, out = run("docker", "info", "--format", template)
    return out if code == 0 else ""


def check(settings, text):
    """Refuse what Docker would not start with."""
    twice = sorted(flags() & settings.keys())
    if twice:
        raise Refused(
            f"{', '.join(twice)} is set both in docker.service (as a flag) and in {PATH}, so "
            "Docker would not start; remove one of them."
        )
    with tempfile.NamedTemporaryFile("w", suffix=".json") as handle:
        handle.write(text)
        handle.flush()
        code, out = run("dockerd", "--validate", "--config-file", handle.name)
    # dockerd before 23.0 cannot validate.
    if code != 0 and "unknown flag" not in out:
        raise Refused(f"Docker does not accept the settings: {out[-600:]}")


def started():
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if active() and info("{{.ServerVersion}}"):
            return True
        if run("systemctl", "is-failed", "--quiet", "docker.service")[0] == 0:
            return False
        time.sleep(0.3)
    return False


def restart():
    """Restart Docker, unless that would end containers."""
    if active():
        # Reloading first makes a newly set live-restore protect the containers that run now.
        run("systemctl", "reload", "docker.service")
        time.sleep(0.5)
        count, protected = info("{{.ContainersRunning}} {{.LiveRestoreEnabled}}").split() or [
            "0",
            "true",
        ]
        if int(count) and protected != "true":
            raise Refused(
                f"Docker has to be restarted, which would end {count} running containers since "
                "live-restore is not in force; stop them, then run again"
            )
    run("systemctl", "reset-failed", "docker.service")
    run("systemctl", "restart", "docker.service")
    if not started():
        _, journal = run(
            "journalctl", "--unit=docker.service", "--lines=8", "--output=cat", "--no-pager"
        )
        raise Refused(f"Docker did not start with the new settings: {journal[-800:]}")


def effects(changed, restart_wanted):
    """What bringing these keys into force would do to GPU work; a stopped Docker can only start."""
    said = []
    if active() and (restart_wanted or changed - RELOADABLE):
        why = ", ".join(sorted(changed - RELOADABLE)) or "its unit changed"
        said.append(f"restart Docker ({why})")
    if run("systemctl", "is-enabled", "docker.service")[1] != "enabled":
        said.append(disturb.effect(["systemctl", "enable", "docker.service"]))
    return said


def converge(old_text, old, new, text, restart_wanted, disturbing):
    """Bring the new file into force; returns what was done to Docker."""
    changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    check(new, text)
    try:
        gpu_use.guard(effects(changed, restart_wanted), allowed=disturbing)
    except gpu_use.Disturbs as reason:
        raise Refused(str(reason)) from None
    try:
        if text != old_text:
            write(text)
        if restart_wanted or not active() or changed - RELOADABLE:
            restart()
            done = "restarted"
        elif changed:
            code, out = run("systemctl", "reload", "docker.service")
            if code != 0:
                raise Refused(f"Docker could not be reloaded: {out}")
            done = "reloaded"
        else:
            done = ""
    except Refused as error:
        if text == old_text:
            raise
        write(old_text)
        if not active():
            run("systemctl", "reset-failed", "docker.service")
            run("systemctl", "start", "docker.service")
        else:
            run("systemctl", "reload", "docker.service")
        raise Refused(f"{error}; {PATH} is as it was") from error
    if run("systemctl", "is-enabled", "docker.service")[1] != "enabled":
        run("systemctl", "enable", "docker.service")
        done = done or "enabled"
    return done


def add_members(wanted, check_mode):
    """Accounts that have to be added to the group docker (and are, unless `check_mode`)."""
    try:
        missing = sorted(set(wanted) - set(grp.getgrnam("docker").gr_mem))
    except KeyError:
        return wanted
    for name in missing if not check_mode else []:
        code, out = run("usermod", "--append", "--groups", "docker", name)
        if code != 0:
            raise Refused(f"{name} could not be added to the group docker: {out}")
    return missing


def main():
    module = AnsibleModule(
        argument_spec={
            "settings": {"type": "dict", "required": True},
            "members": {"type": "list", "elements": "str", "default": []},
            "restart": {"type": "bool", "default": False},
            "disturb": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    old_text, found = read()
    old = found if found is not None else {}
    new = merge(old, module.params["settings"])
    # An untouched file keeps its own layout.
    text = (
        old_text
        if found == new and old_text is not None
        else json.dumps(new, indent=4, sort_keys=True) + "\n"
    )
    installed = shutil.which("dockerd") is not None
    done, aside, disturbs = "", "", []
    try:
        if found is None and not module.check_mode:
            aside = f"{PATH}.invalid"
            shutil.copy2(PATH, aside)
            module.warn(f"{PATH} was no JSON object; it is kept as {aside} and written anew.")
        if module.check_mode:
            if installed:
                check(new, text)
                done = "" if active() else "started"
                changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
                restart_wanted = module.params["restart"]
                disturbs = gpu_use.guard(effects(changed, restart_wanted), check_mode=True)
        elif installed:
            wishes = (module.params["restart"], module.params["disturb"])
            done = converge(old_text, old, new, text, *wishes)
        elif text != old_text:
            write(text)
        members = add_members(module.params["members"], module.check_mode)
    except Refused as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(text != old_text or done or members),
        docker=done,
        members=members,
        set_aside=aside,
        disturbs=disturbs,
        diff={"before": old_text or "", "after": text},
    )


if __name__ == "__main__":
    main()
