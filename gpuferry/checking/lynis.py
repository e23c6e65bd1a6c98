"""Lynis on a server that does not have it: taken there for the time of one audit, and away again.

Lynis is a set of shell scripts under a licence of its own (GPL-3), so it is no part of this
repository: this machine's package is used. Nothing is installed on the server.
"""

from __future__ import annotations

import base64
import io
import tarfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpuferry.checking.node import Node

SECONDS = 240
_HOME = Path("/usr/share/lynis")
_PARTS = {
    "include": _HOME / "include",
    "db": _HOME / "db",
    "plugins": Path("/etc/lynis/plugins"),
    "lynis": Path("/usr/sbin/lynis"),
    "default.prf": Path("/etc/lynis/default.prf"),
}
_FLOORS = Path(__file__).with_name("lynis_floors.yaml")

_PROGRAM = """
import base64, io, os, shutil, subprocess, tarfile, tempfile
folder = tempfile.mkdtemp(prefix="gpuferry-lynis-", dir="/run")
try:
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(payload))) as tar:
        tar.extractall(folder)
    report = os.path.join(folder, "report.dat")
    done = subprocess.run(
        ["/bin/sh", "./lynis", "audit", "system", "--quick", "--quiet", "--no-colors", "--no-log",
         "--profile", os.path.join(folder, "default.prf"), "--report-file", report],
        cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )
    text = open(report, errors="replace").read() if os.path.exists(report) else ""
    answer = [done.returncode, text, (done.stderr or done.stdout)[-400:]]
finally:
    shutil.rmtree(folder, ignore_errors=True)
"""


def here() -> bool:
    """Whether this machine has Lynis."""
    return all(path.exists() for path in _PARTS.values())


def audit(node: Node) -> dict[str, Any]:
    """Run it; returns what :func:`parse` makes of the report.

    Raises:
        RuntimeError: it gave no report.
    """
    code, text, said = node.python(_PROGRAM, _packed(), SECONDS)
    found = parse(text)
    if "hardening_index" not in found:
        lines = str(said).strip().splitlines()
        raise RuntimeError(f"Lynis gave no index (exit {code}): {(lines or ['no output'])[-1]}")
    return found


def parse(report: str) -> dict[str, Any]:
    """`hardening_index`, `lynis_version`, and the lists `warning` and `suggestion` (test ids)."""
    found: dict[str, Any] = {"warning": [], "suggestion": []}
    for line in report.splitlines():
        key, separator, value = line.partition("=")
        name = key.removesuffix("[]")
        if separator and name in ("warning", "suggestion"):
            found[name].append(value.split("|")[0])
        elif separator and key in ("hardening_index", "lynis_version"):
            found[key] = value.strip()
    return found


def floor(system: str, kind: str, floors: Mapping[str, Any] | None = None) -> int | None:
    """The index that a server may not fall below; None for a system nobody has measured."""
    steps = (floors or _floors()).get(system, {}).get(kind, [])
    return max((step["index"] for step in steps), default=None)


@cache
def _floors() -> dict[str, Any]:
    return dict(yaml.safe_load(_FLOORS.read_text(encoding="utf-8")))


def _packed() -> str:
    buffer = io.BytesIO()

    def as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        # Lynis refuses files that belong to somebody else.
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, path in _PARTS.items():
            tar.add(path.resolve(), name, filter=as_root)
    return base64.b64encode(buffer.getvalue()).decode()
