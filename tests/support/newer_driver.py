"""The distribution's own driver packages under a newer version, in an apt repository on a node.

The real packages are fetched there, unpacked, given another version of the same length wherever
the old one stands (names, links, control files, programs), and packed again.
"""

from __future__ import annotations

import json
from typing import Any

from tests.support.node import Node

FOLDER = "/opt/newer-driver"
PACKAGES = ("nvidia-smi", "libnvidia-ml1", "nvidia-alternative", "nvidia-legacy-check")
_PROGRAM = r"""
import hashlib, json, os, shutil, subprocess
asked = json.loads(ASKED)
def run(*argv, **more):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **more).stdout
folder, cache = asked["folder"], "/root/driver-packages"
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
os.makedirs(cache, exist_ok=True)
for name in asked["packages"]:
    if not any(f.startswith(name + "_") for f in os.listdir(cache)):
        run("apt-get", "-q", "download", name, cwd=cache)
stanzas = []
for name in asked["packages"]:
    deb = next(f"{cache}/{f}" for f in os.listdir(cache) if f.startswith(name + "_"))
    full = run("dpkg-deb", "-f", deb, "Version").strip()
    old, new = full.rsplit("-", 1)[0].encode(), asked["version"].encode()
    assert len(old) == len(new)
    root = "/root/driver-root"
    shutil.rmtree(root, ignore_errors=True)
    run("dpkg-deb", "-R", deb, root)
    changes = asked["changes"].get(name, {})
    paths = [os.path.join(at, n) for at, ds, fs in os.walk(root, topdown=False) for n in fs + ds]
    for path in paths:
        inside = path.startswith(root + "/DEBIAN/")
        if os.path.islink(path):
            target = os.readlink(path).replace(old.decode(), new.decode())
            os.unlink(path)
            os.symlink(target, path)
        elif os.path.isfile(path) and (inside or not changes.get("program_of_before")):
            data = open(path, "rb").read()
            mode = os.stat(path).st_mode
            open(path, "wb").write(data.replace(old, new))
            os.chmod(path, mode)
        renamed = os.path.basename(path).replace(old.decode(), new.decode())
        if renamed != os.path.basename(path):
            os.rename(path, os.path.join(os.path.dirname(path), renamed))
    control = open(f"{root}/DEBIAN/control").read().rstrip() + "\n"
    for field, text in changes.get("fields", {}).items():
        lines = [l for l in control.splitlines() if not l.startswith(field + ":")]
        was = next((l.split(": ", 1)[1] for l in control.splitlines()
                    if l.startswith(field + ":")), "")
        control = "\n".join([*lines, f"{field}: {', '.join(filter(None, [was, text]))}"]) + "\n"
    open(f"{root}/DEBIAN/control", "w").write(control)
    for script, text in changes.get("scripts", {}).items():
        path = f"{root}/DEBIAN/{script}"
        was = open(path).read().split("\n", 1)[1] if os.path.exists(path) else ""
        open(path, "w").write("#!/bin/sh\n" + text + "\n" + was)
        os.chmod(path, 0o755)
    run("dpkg-deb", "--root-owner-group", "-Znone", "-b", root, f"{folder}/{name}.deb")
    stanzas.append((name, control))
for name, fields in asked["others"].items():
    root = "/root/driver-root"
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root + "/DEBIAN")
    control = (f"Package: {name}\nArchitecture: all\nMaintainer: test <test@localhost>\n"
               f"Description: nothing\n{fields}")
    open(f"{root}/DEBIAN/control", "w").write(control)
    run("dpkg-deb", "--root-owner-group", "-Znone", "-b", root, f"{folder}/{name}.deb")
    stanzas.append((name, control))
with open(f"{folder}/Packages", "w") as index:
    for name, control in stanzas:
        data = open(f"{folder}/{name}.deb", "rb").read()
        index.write(f"{control.rstrip()}\nFilename: ./{name}.deb\nSize: {len(data)}\n"
                    f"SHA256: {hashlib.sha256(data).hexdigest()}\n\n")
source = f"deb [trusted=yes] file:{folder} ./\n"
open("/etc/apt/sources.list.d/newer-driver.list", "w").write(source)
"""


def offer(
    node: Node,
    version: str,
    changes: dict[str, dict[str, Any]] | None = None,
    others: dict[str, str] | None = None,
) -> None:
    """Offer the driver packages in a version, all of them.

    `changes` by package: `fields` are added to control fields, `scripts` are run before what a
    maintainer script did, `program_of_before` leaves its files those of the old version.
    `others` are further packages: name to control lines, `Version` among them.
    """
    asked = {
        "folder": FOLDER, "version": version, "packages": PACKAGES, "changes": changes or {},
        "others": others or {},
    }  # fmt: skip
    program = f"ASKED = {json.dumps(asked)!r}\n{_PROGRAM}"
    node.run(f"python3 - <<'END-OF-PROGRAM'\n{program}\nEND-OF-PROGRAM", 300)


def withdraw(node: Node) -> None:
    """The sources are the distribution's again."""
    node.run(f"rm -rf {FOLDER} /etc/apt/sources.list.d/newer-driver.list; apt-get -q update", 300)
