"""The Docker engine of this machine: found, or started where there is none."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from gpuferry.errors import PrerequisiteMissing
from gpuferry.paths import data_dir

_START_DEADLINE_SECONDS = 60


def version() -> str | None:
    """The version of the engine that answers, or None."""
    if shutil.which("docker") is None:
        return None
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def ensure_running(say: Callable[[str], None]) -> None:
    """Start the engine where none answers, with systemd where it runs, by hand elsewhere.

    Raises:
        PrerequisiteMissing: it did not come up; the message holds its own last words.
    """
    if version():
        return
    if os.environ.get("DOCKER_HOST"):
        raise PrerequisiteMissing(
            f"The Docker engine at DOCKER_HOST={os.environ['DOCKER_HOST']} does not answer. Local "
            "servers need one on this machine: unset DOCKER_HOST, or start it."
        )
    say("starting the Docker engine")
    if Path("/run/systemd/system").is_dir():
        subprocess.run(["systemctl", "start", "docker"], capture_output=True, check=False)
    else:
        _start_by_hand()
    deadline = time.monotonic() + _START_DEADLINE_SECONDS
    while not version():
        if time.monotonic() > deadline:
            raise PrerequisiteMissing(
                f"The Docker engine did not answer within {_START_DEADLINE_SECONDS} s. "
                f"{_last_words()}"
            )
        time.sleep(0.2)


def _pid_file() -> Path:
    return data_dir() / "dockerd.pid"


def _log_file() -> Path:
    return data_dir() / "dockerd.log"


def _start_by_hand() -> None:
    data_dir().mkdir(parents=True, exist_ok=True)
    with open(_log_file(), "wb") as log:
        process = subprocess.Popen(
            ["dockerd", "--log-level", "warn"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _pid_file().write_text(str(process.pid))


def _last_words() -> str:
    with contextlib.suppress(OSError):
        lines = _log_file().read_text(errors="replace").strip().splitlines()
        if lines:
            return f"It said: {lines[-1][-300:]}"
    return "See `journalctl -u docker`."


def own_pid() -> int | None:
    """Process id of the engine that we started by hand, if it is still that."""
    try:
        pid = int(_pid_file().read_text())
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, ValueError):
        return None
    return pid if name == "dockerd" else None


def stop_own_if_idle() -> bool:
    """Stop the engine if we started it by hand and no container is left; True when stopped."""
    pid = own_pid()
    if pid is None:
        return False
    done = subprocess.run(["docker", "ps", "-aq"], capture_output=True, check=False)
    if done.returncode != 0 or done.stdout.strip():
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 20
    while own_pid() is not None and time.monotonic() < deadline:
        time.sleep(0.1)
    _pid_file().unlink(missing_ok=True)
    return True
