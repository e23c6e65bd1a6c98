"""Runs on the server in a process of its own: which version each declared CUDA really has.

Standard library only, Python 3.9 or newer. Prints `{"runtime": {path: version}, "toolkit": …}`;
versions as `12.4`, or what went wrong.
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import re
import subprocess
import sys


def runtimes(version: str) -> dict[str, str]:
    """Libraries that may be the runtime of this version: NVIDIA's packages, the distribution's."""
    major = version.split(".")[0]
    paths = [
        *glob.glob(f"/usr/local/cuda-{version}/lib64/libcudart.so.{major}*"),
        *glob.glob(f"/usr/local/cuda-{version}/targets/*/lib/libcudart.so.{major}*"),
        *glob.glob(f"/usr/lib/*-linux-gnu/libcudart.so.{major}*"),
    ]
    return {path: runtime_version(path) for path in sorted({os.path.realpath(p) for p in paths})}


def runtime_version(path: str) -> str:
    """Ask the library itself; needs no GPU (cudaRuntimeGetVersion: 1000 major + 10 minor)."""
    try:
        number = ctypes.c_int()
        code = ctypes.CDLL(path).cudaRuntimeGetVersion(ctypes.byref(number))
    except (OSError, AttributeError) as error:
        return str(error)
    return f"{number.value // 1000}.{number.value % 1000 // 10}" if code == 0 else f"error {code}"


def toolkits(version: str) -> dict[str, str]:
    """Compilers that may be of this version."""
    paths = [f"/usr/local/cuda-{version}/bin/nvcc", "/usr/bin/nvcc"]
    return {path: compiler_version(path) for path in paths if os.path.exists(path)}


def compiler_version(path: str) -> str:
    """Ask the compiler."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"release (\d+\.\d+)", done.stdout)
    return found.group(1) if found else f"exit code {done.returncode}, no release named"


def main(declared: str) -> None:
    """Look for everything that is declared."""
    wanted = json.loads(declared)
    answer: dict[str, dict[str, str]] = {"runtime": {}, "toolkit": {}}
    for version in wanted["runtime"]:
        answer["runtime"].update(runtimes(version))
    for version in wanted["toolkit"]:
        answer["toolkit"].update(toolkits(version))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
