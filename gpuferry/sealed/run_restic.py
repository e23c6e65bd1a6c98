"""Run restic once; standard library only, since it also runs on servers. One JSON order on stdin.

Keys are files in this process's memory, which restic reads by their descriptors: they are in no
argument, no environment and no file system, and gone with the process, however it ends.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

Order = dict[str, Any]


def in_memory(text: str) -> str:
    """Return the path of a file that only this process and its children have."""
    descriptor = os.memfd_create("key")
    os.write(descriptor, text.encode())
    os.set_inheritable(descriptor, True)
    return f"/proc/self/fd/{descriptor}"


def restic(order: Order, arguments: list[str], folder: str | None = None) -> Order:
    """Run it; return exit code and what it said."""
    files = {name: in_memory(text) for name, text in order["files"].items()}
    options = [option.format(**files) for option in order["options"]]
    process = subprocess.Popen(
        ["restic", *options, *arguments],
        cwd=folder,
        env={**_own_environment(), **order["environment"], **files},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        close_fds=False,
    )
    late = ""
    try:
        out, err = process.communicate(timeout=order["seconds"])
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        late = f"\nthe object store was not usable within {order['seconds']} s"
    said = (out.decode(errors="replace"), err.decode(errors="replace") + late)
    return {"code": process.returncode, "out": said[0], "err": said[1]}


def _own_environment() -> dict[str, str]:
    """Without what somebody's own work with stores has set: restic would prefer it to ours."""
    theirs = ("AWS_", "RESTIC_", "MINIO_")
    return {name: value for name, value in os.environ.items() if not name.startswith(theirs)}


def push(order: Order) -> Order:
    """Snapshot a folder, by its name alone: with its own owner and mode, without the path to it."""
    above, name = os.path.split(os.path.realpath(order["folder"]))
    if not os.path.isdir(order["folder"]) or not name:
        return {"refused": "no folder"}
    return restic(order, [*order["arguments"], f"./{name}"], above)


def pull(order: Order) -> Order:
    """Restore beside the wished folder, and rename once everything is there and compared."""
    target = order["folder"]
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        return {"refused": "not empty"}
    if os.path.islink(target):
        return {"refused": "link"}
    if os.path.ismount(target):
        return {"refused": "mount point"}
    above = os.path.dirname(target)
    if not os.path.isdir(above):
        return {"refused": "no parent"}
    draft = tempfile.mkdtemp(prefix=f".{os.path.basename(target)}.", dir=above)
    try:
        answer = restic(order, [*order["arguments"], "--target", draft])
        if answer["code"] == 0:
            (restored,) = os.listdir(draft)
            os.rename(os.path.join(draft, restored), target)
        return answer
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def main() -> None:
    """Do what is ordered."""
    order = json.load(sys.stdin)
    if shutil.which("restic") is None:
        answer = {"refused": "no restic"}
    elif order["verb"] == "push":
        answer = push(order)
    elif order["verb"] == "pull":
        answer = pull(order)
    else:
        answer = restic(order, order["arguments"])
    print(json.dumps(answer))


main()
