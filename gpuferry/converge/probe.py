"""Runs on the server, as root, on whatever Python 3 it has: reads what roles own.

Sent over stdin and never installed. Standard library only.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import subprocess

PROOFS = "/var/lib/gpuferry/proofs.json"
UNAPPLIED = "/var/lib/gpuferry/unapplied.json"
TIMEOUT_SECONDS = 20


def _run(argv):  # type: ignore[no-untyped-def]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=TIMEOUT_SECONDS, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "failed: " + type(error).__name__
    return done.stdout.decode(errors="replace") + f"exit {done.returncode}"


def _file(path):  # type: ignore[no-untyped-def]
    try:
        status = os.lstat(path)
        mark = f"{status.st_mode:o} {status.st_uid} {status.st_gid}"
        if os.path.islink(path):
            return f"{mark} -> {os.readlink(path)}"
        if not os.path.isfile(path):
            return mark
        with open(path, "rb") as file:
            return f"{mark} {hashlib.sha256(file.read()).hexdigest()}"
    except OSError as error:
        return "failed: " + type(error).__name__


def _packages(names):  # type: ignore[no-untyped-def]
    if not names:
        return {}
    out = _run(["dpkg-query", "-W", "-f=${Package} ${Version} ${db:Status-Status}\n", *names])
    found = {line.split(" ", 1)[0]: line for line in out.splitlines() if " " in line}
    return {name: found.get(name, "absent") for name in names}


def _units(names):  # type: ignore[no-untyped-def]
    if not names:
        return {}
    wanted = "Id,LoadState,ActiveState,UnitFileState,NeedDaemonReload"
    out = _run(["systemctl", "show", "--property", wanted, *names])
    # One block per unit, in the order asked for.
    blocks = out.rsplit("exit ", 1)[0].strip().split("\n\n")
    padded = [*blocks, *["absent"] * len(names)]
    return dict(zip(names, padded, strict=False))


def readings(owns, packages, units):  # type: ignore[no-untyped-def]
    """A hash per thing that a role owns, by its name.

    `packages` and `units` are those of all roles, by name: each is asked for in one go.
    """
    found = {}
    for pattern in owns["files"]:
        paths = sorted(glob.glob(pattern, recursive=True))
        found[f"list {pattern}"] = "\n".join(paths)
        for path in paths:
            found[f"file {path}"] = _file(path)
    for name in owns["packages"]:
        found[f"package {name}"] = packages[name]
    for name in owns["units"]:
        found[f"unit {name}"] = units[name]
    for argv in owns["commands"]:
        found[f"output of {' '.join(argv)}"] = _run(argv)
    return {key: hashlib.sha256(text.encode()).hexdigest()[:16] for key, text in found.items()}


def _load():  # type: ignore[no-untyped-def]
    try:
        with open(PROOFS) as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def _store(proofs):  # type: ignore[no-untyped-def]
    os.makedirs(os.path.dirname(PROOFS), mode=0o755, exist_ok=True)
    draft = f"{PROOFS}.{os.getpid()}"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(proofs, file)
    os.replace(draft, PROOFS)


def _differences(old, new):  # type: ignore[no-untyped-def]
    return sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def main(request):  # type: ignore[no-untyped-def]
    """Compare with the proofs on this server, or replace them; print the findings as JSON."""
    asked = json.loads(request)
    proofs, holds, broken = _load(), [], {}
    # Files may be as they were while their service still runs with something else.
    owed = os.path.exists(UNAPPLIED)
    owned = [wanted["owns"] for wanted in asked["roles"].values()]
    packages = _packages(sorted({name for owns in owned for name in owns["packages"]}))
    units = _units(sorted({name for owns in owned for name in owns["units"]}))
    for role, wanted in asked["roles"].items():
        now = {"inputs": wanted["inputs"], "readings": readings(wanted["owns"], packages, units)}
        if asked["mode"] == "record":
            proofs[role] = now
        known = proofs.get(role)
        if owed and asked["mode"] == "check":
            broken[role] = ["an interrupted run left work"]
        elif known == now:
            holds.append(role)
        elif known is None:
            broken[role] = ["no proof yet"]
        elif known["inputs"] != now["inputs"]:
            broken[role] = ["the role or its variables changed"]
        else:
            broken[role] = _differences(known["readings"], now["readings"])
    if asked["mode"] == "record":
        _store(proofs)
    print(json.dumps({"holds": holds, "broken": broken}))
