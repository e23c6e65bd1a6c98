"""The simulated library and its program, built once and cached by content."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from gpuferry.content import tree_digest
from gpuferry.errors import PrerequisiteMissing, StepFailed
from gpuferry.paths import REPOSITORY, cache_dir
from gpuferry.prepare import packages
from gpuferry.turns import turn

_SOURCE = REPOSITORY / "gpusim"


def place() -> Path:
    """The folder with `lib/` and `bin/`, or where it will be."""
    rules = hashlib.sha256((_SOURCE / "Makefile").read_bytes()).hexdigest()[:8]
    return cache_dir() / "gpusim" / f"{tree_digest('gpusim/src')}-{rules}"


def build(say: Callable[[str], None] = lambda text: None) -> Path:
    """Build where it is missing; return the folder with lib/libnvidia-ml.so.1 and bin/gpusim.

    Raises:
        PrerequisiteMissing: there is no compiler.
        StepFailed: the compiler refused the sources.
    """
    target = place()
    if not target.is_dir():
        with turn("the simulated NVML library", say):
            if not target.is_dir():
                _build(target, say)
    return target


def _build(target: Path, say: Callable[[str], None]) -> None:
    require_compiler(say)
    say("building the simulated NVML library, once (about 10 s)")
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        compile_into(draft)
        shutil.rmtree(draft / "objects")
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def require_compiler(say: Callable[[str], None]) -> None:
    """Install gcc, make and the C library's headers where they are missing.

    Raises:
        PrerequisiteMissing: they cannot be had without the user.
    """
    if not packages.missing(packages.COMPILER):
        return
    if os.geteuid() != 0:
        names = " ".join(packages.missing(packages.COMPILER))
        raise PrerequisiteMissing(
            f"Simulated GPUs need a C compiler. Install it: apt-get install {names}"
        )
    packages.install_missing(say, packages.COMPILER)


def compile_into(folder: Path, *make_arguments: str) -> None:
    """Run the Makefile; `make_arguments` such as `ABSENT=nvmlDeviceGetUUID`.

    Raises:
        StepFailed: the compiler refused the sources.
    """
    done = subprocess.run(
        ["make", "-s", "-j", str(os.cpu_count() or 1), "CC=gcc", f"OUT={folder}", *make_arguments],
        cwd=_SOURCE,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr)
        raise StepFailed(f"Building the simulated NVML library failed: {first.strip()}")
