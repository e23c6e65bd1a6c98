"""Runs on the server as root, by a timer: writes down what waits, and reboots where that is right.

`--print` only prints. Standard library and the files beside it only.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from ansible.module_utils import apt_run, gpu_use, update_state

STATE = "/var/lib/gpuferry/updates.json"
METRICS = "/var/lib/gpuferry/metrics/updates.prom"
REQUIRED = "/run/reboot-required"
WINDOW = "/etc/gpuferry/reboot-window"


def read(path):
    """Text of a file, empty when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""


def output(*argv):
    """What a command says; empty when it fails or hangs."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=120, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def write(path, text):
    """Replace a file as a whole."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w", encoding="utf-8") as handle:
        handle.write(text)
        os.fchmod(handle.fileno(), 0o644)
    os.replace(draft, path)


def has_driver(release):
    """Whether a kernel has an NVIDIA module, from whatever package."""
    folder = f"/lib/modules/{glob.escape(release)}"
    return bool(release and glob.glob(f"{folder}/**/nvidia.ko*", recursive=True))


def sessions():
    """Who is logged in by SSH or on a console; a controller's connection counts as well.

    From the titles that sshd gives its sessions: a minimal server has no logind session for them.
    """
    titles = [read(path).split("\0")[0] for path in glob.glob("/proc/[0-9]*/cmdline")]
    names = [re.match(r"sshd(?:-session)?: ([^\s@]+)@", title) for title in titles]
    found = {match.group(1) for match in names if match}
    return sorted(found | {line.split()[0] for line in output("who").splitlines()})


def facts_for_a_reboot(needed):
    """What :func:`update_state.decide` is given; looked at only where a reboot is due."""
    now = time.localtime()
    running = os.uname().release
    kernels = [path.removeprefix("/boot/vmlinuz-") for path in glob.glob("/boot/vmlinuz-*")]
    newest = update_state.newest_kernel(kernels) or running
    window = read(WINDOW).strip()
    facts = {
        "needed": needed,
        "window": window,
        "weekday": now.tm_wday,
        "minute": now.tm_hour * 60 + now.tm_min,
        "kernel": newest,
        "driver": has_driver(running) or os.path.isdir("/sys/module/nvidia"),
        "kernel_has_driver": has_driver(newest),
    }
    if not (needed and window):
        return {**facts, "users": [], "containers": [], "sessions": [], "busy": ""}
    return {
        **facts,
        "users": gpu_use.users(),
        "containers": output("docker", "ps", "--format", "{{.Names}}").split(),
        "sessions": sessions(),
        # Not by name: a helper of unattended-upgrades is always there under the same one.
        "busy": apt_run.lock_holder(),
    }


def collect():
    """The whole state of this moment."""
    now = time.time()
    try:
        before = dict(json.loads(read(STATE) or "{}"))
    except ValueError:
        before = {}
    simulated = output("apt-get", "-s", "-q", "-o", "Debug::NoLocking=1", "dist-upgrade")
    security, other = update_state.pending(simulated)
    seen = update_state.since(before.get("since", {}), security, now)
    lists = [os.path.getmtime(path) for path in glob.glob("/var/lib/apt/lists/*_*Packages*")]
    needed = os.path.exists(REQUIRED)
    facts = facts_for_a_reboot(needed)
    return {
        "at": now,
        "measured": bool(simulated),
        "security": security,
        "other": other,
        "since": seen,
        "oldest_seconds": max((now - at for at in seen.values()), default=0),
        "lists_seconds": now - max(lists) if lists else None,
        "reboot_required": needed,
        "reboot_since": os.path.getmtime(REQUIRED) if needed else None,
        "reboot_packages": sorted(set(read(f"{REQUIRED}.pkgs").split())),
        "facts": facts,
        "decision": update_state.decide(facts),
    }


def main():
    """Print, or write down and act."""
    state = collect()
    if "--print" in sys.argv:
        print(json.dumps(state))
        return
    write(STATE, json.dumps(state, indent=1) + "\n")
    write(METRICS, update_state.metrics(state))
    print("; ".join(state["decision"]["why"]) or "rebooting")
    # Looked at once more: work may have begun while the packages were being worked out.
    if state["decision"]["reboot"] and update_state.decide(facts_for_a_reboot(True))["reboot"]:
        subprocess.run(["systemctl", "reboot"], check=True)


if __name__ == "__main__":
    main()
