#!/usr/bin/python
"""What the roles' preflights decide on, read in one call."""

from __future__ import annotations

import contextlib
import glob
import grp
import os
import platform
import pwd
import re
import subprocess
import time

from ansible.module_utils import secret_store, sshd_files
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.ssh_session import ssh_session

DOCUMENTATION = r"""
module: server_facts
short_description: What the roles' preflights decide on, read in one call
description:
  - Returns C(ansible_facts.ferry) with the system, the SSH session this run came in by, the
    accounts, the algorithms sshd can speak, and the size that the server sees of itself.
author: [gpuferry]
"""


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""


def output(*argv):
    try:
        return subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=20
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def os_release():
    fields = dict(
        line.split("=", 1) for line in read("/etc/os-release").splitlines() if "=" in line
    )
    return {
        key.lower(): fields.get(key, "").strip('"')
        for key in ("ID", "VERSION_ID", "VERSION_CODENAME", "PRETTY_NAME")
    }


def accounts():
    found = {}
    for entry in pwd.getpwall():
        groups = {group.gr_name for group in grp.getgrall() if entry.pw_name in group.gr_mem}
        with contextlib.suppress(KeyError):
            groups.add(grp.getgrgid(entry.pw_gid).gr_name)
        found[entry.pw_name] = {
            "uid": entry.pw_uid,
            "home": entry.pw_dir,
            "shell": entry.pw_shell,
            "full_name": entry.pw_gecos.split(",")[0],
            "groups": sorted(groups),
        }
    return found


def authorized_keys(home):
    lines = read(f"{home}/.ssh/authorized_keys").splitlines()
    return len([line for line in lines if line.strip() and not line.startswith("#")])


def sshd():
    if not os.path.exists("/usr/sbin/sshd"):
        return {}
    answer = {name: output("ssh", "-Q", name).split() for name in ("kex", "cipher", "mac")}
    version = (
        subprocess.run(["ssh", "-V"], stderr=subprocess.PIPE, text=True).stderr
        if os.path.exists("/usr/bin/ssh")
        else ""
    )
    number = re.search(r"OpenSSH_(\d+\.\d+)", version)
    settings = sshd_files.lines()
    moves = any(setting["keyword"] in sshd_files.WHERE for setting in settings)
    return {
        **answer,
        # Where systemd listens in sshd's place, sshd's own port and addresses do not count.
        "socket": moves and output("systemctl", "is-active", "ssh.socket") == "active",
        "settings": [s for s in settings if s["path"] != sshd_files.OURS],
        "reads_drop_ins": sshd_files.includes_ours(sshd_files.read(sshd_files.MAIN)),
        "version": number.group(1) if number else "0",
        "ed25519_host_key": os.path.exists("/etc/ssh/ssh_host_ed25519_key"),
    }


def apt_sources():
    """Addresses of the package sources that each file names."""
    paths = [
        "/etc/apt/sources.list",
        *glob.glob("/etc/apt/sources.list.d/*.list"),
        *glob.glob("/etc/apt/sources.list.d/*.sources"),
    ]
    return {
        path: sorted(set(re.findall(r"https?://[^\s\]]+", re.sub(r"(?m)^#.*$", "", read(path)))))
        for path in paths
    }


def installed(name):
    return os.path.exists(f"/var/lib/dpkg/info/{name}.list")


def is_masked(unit):
    path = f"/etc/systemd/system/{unit}.service"
    return os.path.islink(path) and os.readlink(path) == "/dev/null"


def control_group_limits(name):
    """Values of one limit in this control group and those above it, as far as they are visible."""
    group = next(
        (line[3:] for line in read("/proc/1/cgroup").splitlines() if line.startswith("0::")), "/"
    )
    while True:
        yield read(f"/sys/fs/cgroup{group.rstrip('/')}/{name}").split()
        if group in ("/", ""):
            return
        group = os.path.dirname(group)


def capacity():
    """CPUs and memory as programs here may use them.

    In a container that is what its control group says; `measured` is false where that cannot be
    seen from inside.
    """
    memory = int(read("/proc/meminfo").split()[1]) * 1024
    cpus = float(len(os.sched_getaffinity(0)))
    limits = [value for value in control_group_limits("memory.max") if value]
    quotas = [value for value in control_group_limits("cpu.max") if value]
    memory = min([memory, *(int(value[0]) for value in limits if value[0].isdigit())])
    cpus = min([cpus, *(int(value[0]) / int(value[1]) for value in quotas if value[0].isdigit())])
    return {"cpus": cpus, "memory_bytes": memory, "measured": bool(limits)}


def main():
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    session, known = ssh_session(), accounts()
    if session:
        # Not from the list: users of a directory service are not enumerated.
        session["authorized_keys"] = authorized_keys(pwd.getpwnam(session["user"]).pw_dir)
    container = output("systemd-detect-virt", "--container") not in ("", "none")
    size = capacity()
    size["measured"] = size["measured"] or not container
    ferry = {
        "os": os_release(),
        "architecture": platform.machine(),
        "systemd": os.path.isdir("/run/systemd/system"),
        "container": container,
        # Container engines mount it read-only; what is under it is then the host's to set.
        "sysctl_writable": os.access("/proc/sys/net/ipv4/tcp_syncookies", os.W_OK),
        "root": os.geteuid() == 0,
        "ssh": session,
        "accounts": known,
        "sshd": sshd(),
        "apt_sources": apt_sources(),
        "logs": os.path.exists("/etc/systemd/system/gpuferry-logs.service"),
        "secrets": bool(secret_store.stored() or secret_store.loaded()),
        # Of ours; and packages that somebody else brought, whose units are then left alone.
        "monitoring": os.path.isdir("/etc/gpuferry/monitoring"),
        "monitors_of_others": [
            name
            for name in ("prometheus", "prometheus-alertmanager")
            if installed(name) and not is_masked(name)
        ],
        "apparmor": read("/sys/module/apparmor/parameters/enabled").startswith("Y"),
        "docker_package": next(
            (name for name in ("docker.io", "docker-ce") if installed(name)), ""
        ),
        "chrony": os.path.exists("/usr/sbin/chronyd"),
        "capacity": size,
        "now": time.time(),
    }
    module.exit_json(changed=False, ansible_facts={"ferry": ferry})


if __name__ == "__main__":
    main()
