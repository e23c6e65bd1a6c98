"""What the roles own on a converged node, read from it, for peers that shall declare the same."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuferry.converge.proof import owns
from gpuferry.paths import REPOSITORY, cache_dir
from tests.support.node import ROLES, Node

# Read on a node: one line of JSON per file that a glob of the roles finds and that is ours.
_LIST = """
import glob, json, os, pwd, grp, sys
for pattern in json.loads(sys.argv[1]):
    for path in sorted(glob.glob(pattern, recursive=True)):
        if os.path.isfile(path) and not os.path.islink(path):
            info = os.stat(path)
            print(json.dumps({"path": path, "mode": f"{info.st_mode & 0o7777:o}",
                "user": pwd.getpwuid(info.st_uid).pw_name,
                "group": grp.getgrgid(info.st_gid).gr_name}))
"""


@dataclass(frozen=True)
class State:
    """The owned state of one node, in a folder that peers read."""

    folder: Path
    packages: list[str]
    files: list[dict[str, str]]
    units: list[str]


# What roles look at without making it: no peer declares the kernel's files.
_NOT_MADE = ("/proc/", "/sys/", "/var/lib/gpusim/root/")


def read(node: Node, folder: Path, roles: Sequence[str] = ROLES) -> State:
    """Fetch what the roles own from a converged node."""
    owned = [owns(role) for role in roles]
    found = [p for o in owned for p in o.files if not p.startswith(_NOT_MADE)]
    patterns = json.dumps(found)
    listed = node.run(f"python3 - '{patterns}' <<'END'\n{_LIST}\nEND\n")
    files = [json.loads(line) for line in listed.splitlines()]
    for index, file in enumerate(files):
        file["source"] = f"file{index}"
        text = node.run(f"base64 -w0 {file['path']}")
        decoded = subprocess.run(
            ["base64", "-d"], input=text.encode(), capture_output=True, check=True
        )
        (folder / file["source"]).write_bytes(decoded.stdout)
    packages = sorted({p for o in owned for p in o.packages})
    query = "${Package} ${db:Status-Status}\\n"
    listed = node.run(f"dpkg-query -W -f='{query}' {' '.join(packages)} 2>/dev/null || true")
    installed = [x.split()[0] for x in listed.splitlines() if x.endswith(" installed")]
    active = [u for o in owned for u in o.units if _is_running_service(node, u)]
    state = State(folder, sorted(set(installed)), files, active)
    (folder / "state.json").write_text(
        json.dumps({"packages": state.packages, "files": files, "units": active})
    )
    return state


def _is_running_service(node: Node, unit: str) -> bool:
    script = f"systemctl is-active -q {unit} && systemctl is-enabled -q {unit} && echo yes || true"
    return unit.endswith(".service") and node.run(script).strip() == "yes"


def tarball(node: Node, state: State) -> bytes:
    """A tar of the owned files that no package brings, taken on the node itself."""
    ours = [f["path"] for f in state.files if not _comes_with_a_package(node, f["path"])]
    quoted = " ".join(p.lstrip("/") for p in ours)
    text = node.run(f"tar -c -C / {quoted} | base64 -w0")
    return subprocess.run(
        ["base64", "-d"], input=text.encode(), capture_output=True, check=True
    ).stdout


def _comes_with_a_package(node: Node, path: str) -> bool:
    return bool(node.run(f"dpkg-query -S {path} 2>/dev/null || true").strip())


def peer_environment() -> Path:
    """The virtual environment that pyinfra lives in, made where it is missing; its bin folder."""
    lock = REPOSITORY / "requirements/bench.txt"
    folder = cache_dir() / f"venv-bench-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    if not (folder / "bin/pyinfra").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin/pip"), "install", "-q", "--require-hashes", "-r", str(lock)]
        subprocess.run(pip, check=True, env=dict(os.environ))
    return folder / "bin"
