"""The simulated library and its program, built once and cached by content."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from gpuferry.content import tree_digest
from gpuferry.errors import PrerequisiteMissing, StepFailed
from gpuferry.paths import REPOSITORY, cache_dir

_SOURCE = REPOSITORY / "gpusim"


def place() -> Path:
    """The folder with `lib/` and `bin/`, or where it will be."""
    return cache_dir() / "gpusim" / tree_digest("gpusim/src", "gpusim/Makefile")


def build(say: Callable[[str], None] = lambda text: None) -> Path:
    """Build where it is missing; return the folder with lib/libnvidia-ml.so.1 and bin/gpusim.

    Raises:
        PrerequisiteMissing: there is no compiler.
        StepFailed: the compiler refused the sources.
    """
    target = place()
    if target.is_dir():
        return target
    for program in ("make", "gcc"):
        if shutil.which(program) is None:
            raise PrerequisiteMissing(
                "Simulated GPUs need gcc and make on this machine. Install them: "
                "apt-get install gcc make libc6-dev"
            )
    say("building the simulated NVML library, once (about 10 s)")
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        compile_into(draft)
        shutil.rmtree(draft / "objects")
        # Another run may have been quicker.
        if not target.is_dir():
            draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


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
