"""lint: every linter and type checker, all of them, then one answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from gpuferry.operate.console import say_on_stderr
from gpuferry.paths import REPOSITORY, cache_dir
from gpuferry.simulation import library

_GPUSIM_OUT = cache_dir() / "gpusim" / "lint"


def commands(*, fix: bool) -> dict[str, list[str]]:
    """Name to command line."""
    mend = ["--fix"] if fix else []
    shell = [
        "ferry",
        ".ci/run",
        "gpuferry/converge/bin/ansible-playbook",
        "gpuferry/nodes/local/vm/inside/make_disk.sh",
        "tools/bin/pulumi-language-python",
    ]
    shell.append("tools/bin/pulumi-resource-command")
    return {
        "ruff": ["ruff", "check", *mend, "."],
        "ruff format": ["ruff", "format", *([] if fix else ["--check"]), "."],
        "mypy": ["mypy"],
        "yamllint": ["yamllint", "--strict", "."],
        "shellcheck": ["shellcheck", *shell],
        # Warnings are errors in the Makefile.
        "gpusim": ["make", "--always-make", "-s", "-C", "gpusim", "CC=gcc", f"OUT={_GPUSIM_OUT}"],
        "ansible-lint": ["ansible-lint", "--offline", "--profile", "production", "-q"],
    }


def run(*, fix: bool) -> int:
    """Run all linters; 0 when every one is content."""
    library.require_compiler(say_on_stderr)
    folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"}
    failed = []
    for name, command in commands(fix=fix).items():
        started = time.monotonic()
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
        )
        word = "ok" if done.returncode == 0 else "FAILED"
        say_on_stderr(f"{name:<14} {word} in {time.monotonic() - started:.0f} s")
        if done.returncode != 0:
            failed.append(name)
            print((done.stdout + done.stderr).strip())
    return 1 if failed else 0
