"""Runs on the server, as root, on whatever Python 3 it has: reads and writes its scenario.

Sent over stdin and never installed. Standard library only.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("GPUSIM_DIR", "/var/lib/gpusim"))
RUN = Path(os.environ.get("GPUSIM_RUN_DIR", "/run/gpusim"))
LOG = RUN / "kmsg"
PROGRAM = os.environ.get("GPUSIM_PROGRAM", "/opt/gpusim/bin/gpusim")


def _source() -> str | None:
    try:
        return (FOLDER / "scenario.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _energy() -> list[list[float]]:
    done = subprocess.run([PROGRAM, "energy"], capture_output=True, timeout=10, check=True)
    return [[float(word) for word in line.split()] for line in done.stdout.splitlines()]


def read() -> dict[str, Any]:
    """Everything a change has to know."""
    source = _source()
    if source is None:
        return {"source": None}
    return {
        "source": source,
        "now_ms": int(time.time() * 1000),
        "uptime_seconds": time.monotonic(),
        "energy": _energy(),
        "log_records": LOG.read_bytes().count(b"\n") if LOG.exists() else 0,
    }


def _replace(name: str, text: str) -> None:
    draft = FOLDER / f".{name}.{os.getpid()}"
    draft.write_text(text, encoding="utf-8")
    draft.chmod(0o644)
    draft.replace(FOLDER / name)


def write(request: dict[str, Any]) -> dict[str, bool]:
    """Put a scenario in force, unless it has changed since it was read."""
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        source = _source() or ""
        if hashlib.sha256(source.encode()).hexdigest() != request["read"]:
            return {"written": False}
        for name in request["forget"]:
            (RUN / "set" / name).unlink(missing_ok=True)
        _replace("scenario.json", request["source"])
        _replace("scenario", request["compiled"])
        if request["log"]:
            LOG.parent.mkdir(parents=True, exist_ok=True)
            with LOG.open("a", encoding="utf-8") as file:
                file.write(request["log"])
    return {"written": True}


def main(request: dict[str, Any] | None) -> None:
    """Do what is asked and print one JSON object."""
    json.dump(read() if request is None else write(request), sys.stdout)
