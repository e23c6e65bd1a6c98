"""The real nvidia-smi of Debian 12 and 13, downloaded once into the user's cache, never committed.

It is non-free: it comes from the mirror that this machine's own apt uses, through a temporary apt
configuration, so that nothing on this machine changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpuferry.nodes.local import host
from gpuferry.paths import cache_dir

SUITES = {"debian-12": "bookworm", "debian-13": "trixie"}
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_INSIDE = "usr/lib/nvidia/current/nvidia-smi"


class NotToBeHad(Exception):
    """Why there is no nvidia-smi."""


@dataclass(frozen=True)
class NvidiaSmi:
    """One program and the driver version it belongs to."""

    path: Path
    version: str


def fetch(image: str) -> NvidiaSmi:
    """The program of a Debian release (debian-12, debian-13)."""
    folder = cache_dir() / "nvidia-smi" / image
    if not (folder / "version").is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
            _download(SUITES[image], Path(draft))
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(draft, folder)
    return NvidiaSmi(folder / "nvidia-smi", (folder / "version").read_text().strip())


def _download(suite: str, folder: Path) -> None:
    mirror = host.package_sources().debian
    if mirror is None or not _KEYRING.is_file() or shutil.which("apt-get") is None:
        raise NotToBeHad("this machine has no Debian mirror in its apt sources, or no keyring")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for part in ("etc/sources.list.d", "state/lists/partial", "cache/archives/partial"):
            (root / part).mkdir(parents=True)
        line = f"deb [signed-by={_KEYRING}] {mirror} {suite} non-free\n"
        (root / "etc/sources.list").write_text(line)
        (root / "status").touch()
        settings = {
            "Dir::Etc::sourcelist": root / "etc/sources.list",
            "Dir::Etc::sourceparts": root / "etc/sources.list.d",
            "Dir::State": root / "state",
            "Dir::State::status": root / "status",
            "Dir::Cache": root / "cache",
            "APT::Sandbox::User": "root",
        }
        apt = ["apt-get", "-q"]
        for key, value in settings.items():
            apt += ["-o", f"{key}={value}"]
        _run([*apt, "update"], root)
        _run([*apt, "download", "nvidia-smi"], root)
        package = next(iter(root.glob("nvidia-smi_*.deb")), None)
        if package is None:
            raise NotToBeHad(f"{suite} has no package nvidia-smi")
        _run(["dpkg-deb", "-x", str(package), str(root / "out")], root)
        shutil.copy(root / "out" / _INSIDE, folder / "nvidia-smi")
        version = package.name.split("_")[1].rsplit("-", 1)[0]
        (folder / "version").write_text(version + "\n")


def _run(argv: list[str], folder: Path) -> None:
    done = subprocess.run(
        argv, cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    if done.returncode != 0:
        raise NotToBeHad(f"{argv[0]} failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
