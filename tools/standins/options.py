"""The `runtime.options` of Pulumi.yaml: which Python runs the program."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any


class UnsupportedOption(Exception):
    """Pulumi.yaml asks for something that this host does not do; the text is for the user."""


def program_python(options: dict[str, Any], root_directory: str) -> str:
    """Return the interpreter for the program.

    `virtualenv` names it (relative to the project); otherwise it is `PULUMI_PYTHON_CMD`, as with
    the official host, or the Python that runs this host. Raises UnsupportedOption.
    """
    for name in sorted(options.keys() - {"virtualenv", "toolchain"}):
        raise UnsupportedOption(f"runtime option {name} is not supported; remove it")
    toolchain = options.get("toolchain", "pip")
    if toolchain != "pip":
        raise UnsupportedOption(f"runtime option toolchain: {toolchain} is not supported; use pip")
    virtualenv = options.get("virtualenv")
    if virtualenv is None:
        return shutil.which(os.environ.get("PULUMI_PYTHON_CMD", sys.executable)) or sys.executable
    if not isinstance(virtualenv, str):
        raise UnsupportedOption("runtime option virtualenv must be the path of a directory")
    python = Path(root_directory, virtualenv, "bin", "python")
    if not python.exists():
        raise UnsupportedOption(f"runtime option virtualenv: there is no {python}")
    return str(python)


def pack_python(options: dict[str, Any], root_directory: str) -> str:
    """Return the interpreter for a policy pack: as for a program, or that of its folder `venv`.

    The official host takes a pack's own environment only, by default `venv`. Here the environment
    on PATH serves a pack that has none. Raises UnsupportedOption.
    """
    if "virtualenv" not in options and Path(root_directory, "venv", "bin", "python").exists():
        options = {**options, "virtualenv": "venv"}
    return program_python(options, root_directory)
