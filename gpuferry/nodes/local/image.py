"""The bare Debian image that local servers start from.

It is what a provider's stock image is: systemd, sshd, one sudo user, no host keys. Its tag is a
hash of everything that goes in, so a changed mirror or certificate makes a new image.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuferry.errors import PrerequisiteMissing, StepFailed
from gpuferry.nodes.local import host
from gpuferry.nodes.local.docker import docker, inspect
from gpuferry.turns import turn

SUITES = {"debian-13": "trixie", "debian-12": "bookworm"}
ADMIN_USER = "ferry"
ADMIN_UID = 1000
PACKAGES = (
    "systemd,systemd-sysv,dbus,openssh-server,python3,python3-apt,sudo,iproute2,"
    "ca-certificates,procps"
)
_RECIPE = 2  # raise when build() changes what it makes


def reference(image: str) -> str:
    """The tag of the image for `debian-13` or `debian-12` on this machine, built or not."""
    inputs = [_RECIPE, image, PACKAGES, ADMIN_USER, host.apt_proxy()]
    inputs += [vars(host.package_sources()), host.extra_ca_certificates()]
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:12]
    return f"gpuferry/node:{image}-{digest}"


def ensure(image: str, say: Callable[[str], None]) -> str:
    """Build the image where it is missing; return its tag."""
    tag = reference(image)
    if inspect("image", tag) is None:
        with turn(f"the image {tag}", say):
            if inspect("image", tag) is None:
                say(f"building the {image} image, once (about 30 s)")
                _build(image, tag)
    return tag


def _build(image: str, tag: str) -> None:
    with tempfile.TemporaryDirectory(prefix="gpuferry-image-") as folder:
        tarball = Path(folder) / "root.tar"
        bootstrap(image, PACKAGES, tarball)
        docker("import", "--change", 'CMD ["/sbin/init"]', str(tarball), tag, timeout_seconds=300)


def bootstrap(
    image: str,
    packages: str,
    tarball: Path,
    *,
    files: dict[str, str] | None = None,
    hooks: Sequence[str] = (),
) -> None:
    """Make the file system of a bare server as a tar file.

    `files` (path to text) are added to it; `hooks` run at the end, with the tree as `$1`.

    Raises:
        StepFailed: a package could not be had.
    """
    if shutil.which("mmdebstrap") is None:
        raise PrerequisiteMissing("mmdebstrap is missing. Run `./ferry doctor`.")
    with tempfile.TemporaryDirectory(prefix="gpuferry-overlay-") as folder:
        _overlay(Path(folder), files or {})
        command = _mmdebstrap(image, packages, Path(folder), tarball, hooks)
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        errors = [x for x in result.stderr.splitlines() if x.startswith(("E:", "Err:"))]
        raise StepFailed(
            f"Building the {image} image failed: {(errors or ['no reason given'])[-1]} "
            "Check this machine's apt sources, or set gpuferry:mirrors."
        )


def _overlay(overlay: Path, files: dict[str, str]) -> None:
    """Files that a provider's image would bring: certificates, the proxy, the sudo user's right."""
    for name, pem in host.extra_ca_certificates().items():
        _write(overlay / host.CA_DIRECTORY / name, pem)
    _write(overlay / "etc/sudoers.d/90-provider", f"{ADMIN_USER} ALL=(ALL) NOPASSWD:ALL\n")
    if proxy := host.apt_proxy():
        _write(overlay / "etc/apt/apt.conf.d/95proxy", f'Acquire::http::Proxy "{proxy}";\n')
    for path, text in files.items():
        _write(overlay / path, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)


def _mmdebstrap(
    image: str, packages: str, overlay: Path, tarball: Path, more_hooks: Sequence[str]
) -> list[str]:
    suite, sources = SUITES[image], host.package_sources()
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={packages}"]
    present = " ".join(f'"{path}"' for path in sorted(overlay.iterdir()))
    hooks = [
        f"copy-in {present} /",
        'chroot "$1" update-ca-certificates',
        f'chroot "$1" useradd --create-home --shell /bin/bash --uid {ADMIN_UID} {ADMIN_USER}',
        'chmod 0440 "$1/etc/sudoers.d/90-provider"',
        # Each server gets its own identity at creation.
        'rm -f "$1"/etc/ssh/ssh_host_* && : > "$1/etc/machine-id"',
        *more_hooks,
    ]
    command += [f"--customize-hook={hook}" for hook in hooks]
    components = "main contrib non-free non-free-firmware"
    lines = []
    if sources.debian:
        lines += [f"deb {sources.debian} {s} {components}" for s in (suite, f"{suite}-updates")]
    if sources.security:
        lines.append(f"deb {sources.security} {suite}-security {components}")
    return [*command, f"--components={components}", suite, str(tarball), *lines]
