"""NVIDIA's container toolkit as a Debian package in an apt repository of one folder.

Real servers get the package from NVIDIA's repository. Local ones get the same programs, built from
the pinned Go module, under the same package name, so that one role serves both. What needs
libnvidia-container (`docker run --gpus`) is not in it; CDI and the `nvidia` runtime are.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from gpuferry.errors import StepFailed
from gpuferry.paths import cache_dir
from gpuferry.prepare import binaries
from gpuferry.turns import turn

PACKAGE = "nvidia-container-toolkit"
_COMMANDS = ("nvidia-ctk", "nvidia-cdi-hook", "nvidia-container-runtime")
_RECIPE = 1  # raise when the package changes
_CONTROL = """\
Package: {package}
Version: {version}
Architecture: {architecture}
Maintainer: gpuferry <gpuferry@localhost>
Section: utils
Priority: optional
Depends: libc6 (>= 2.34)
Provides: {package}-base (= {version})
Conflicts: {package}-base
Replaces: {package}-base
Description: NVIDIA Container Toolkit, built from its Go module
 CDI specifications and the nvidia runtime, for servers with simulated GPUs. Without
 libnvidia-container, so without docker run --gpus.
"""


def version() -> str:
    """The package's version."""
    return f"{binaries.pinned_version('nvidia-ctk')}-1+gpuferry{_RECIPE}"


def folder() -> Path:
    """Where the repository is, or will be."""
    return cache_dir() / "packages" / f"{binaries.pins_digest('tools/node')}-{_RECIPE}"


def ensure(say: Callable[[str], None]) -> Path:
    """Build the package where it is missing; return the repository's folder.

    Raises:
        StepFailed: the programs or the package could not be built.
    """
    target = folder()
    if not target.exists():
        with turn("the container toolkit's package", say):
            if not target.exists():
                _build(target, say)
    return target


def _build(target: Path, say: Callable[[str], None]) -> None:
    programs = [binaries.ensure(name, say) for name in _COMMANDS]
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        root, repository = Path(scratch) / "root", Path(scratch) / "repository"
        repository.mkdir()
        control = _CONTROL.format(package=PACKAGE, version=version(), architecture=_architecture())
        _lay_out(root, programs, control)
        deb = repository / f"{PACKAGE}_{version()}.deb"
        _dpkg_deb(root, deb)
        index(repository, {deb.name: control})
        repository.chmod(0o755)
        repository.replace(target)


def index(repository: Path, controls: dict[str, str]) -> None:
    """Write the `Packages` file of a one-folder repository: file name to control text."""
    stanzas = []
    for name, control in controls.items():
        data = (repository / name).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        stanzas.append(
            f"{control.rstrip()}\nFilename: ./{name}\nSize: {len(data)}\nSHA256: {digest}\n"
        )
    (repository / "Packages").write_text("\n".join(stanzas), encoding="utf-8")


def _lay_out(root: Path, programs: list[Path], control: str) -> None:
    (root / "usr/bin").mkdir(parents=True)
    (root / "DEBIAN").mkdir()
    for program in programs:
        shutil.copy(program, root / "usr/bin" / program.name)
        (root / "usr/bin" / program.name).chmod(0o755)
    (root / "DEBIAN/control").write_text(control, encoding="utf-8")
    for directory in (root, root / "usr", root / "usr/bin", root / "DEBIAN"):
        directory.chmod(0o755)


def _dpkg_deb(root: Path, deb: Path) -> None:
    # gzip: unpacked once on every server, and quick to make.
    done = subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z6", "--build", str(root), str(deb)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise StepFailed(f"Building the package {PACKAGE} failed: {done.stderr.strip()}")


def _architecture() -> str:
    done = subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "amd64"
