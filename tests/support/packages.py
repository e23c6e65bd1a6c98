"""Small Debian packages with nothing in them, and apt repositories of them on a node."""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

from gpuferry.prepare.toolkit_package import index
from tests.support.node import Node

ORIGIN = "gpuferry-test"
FOLDER = "/opt/test-packages"


def publish(
    node: Node,
    packages: dict[str, str],
    *,
    fields: dict[str, str] | None = None,
    scripts: dict[str, dict[str, str]] | None = None,
    contents: dict[str, dict[str, bytes]] | None = None,
    release: dict[str, str] | None = None,
    folder: str = FOLDER,
) -> None:
    """Make the node's test repository offer exactly these packages (name to version).

    `fields` are further control lines of a package, such as `Depends: other`; `scripts` its
    maintainer scripts by name; `contents` its files by path, programs all of them; `release` are
    fields of the Release file in the place of the usual ones; `folder` is where it lies.
    """
    with tempfile.TemporaryDirectory() as temporary:
        repository = Path(temporary)
        controls = {}
        for name, version in packages.items():
            control = _control(name, version) + (fields or {}).get(name, "")
            files = {f"DEBIAN/{k}": v.encode() for k, v in (scripts or {}).get(name, {}).items()}
            files |= (contents or {}).get(name, {})
            _build(repository, f"{name}_{version}.deb", control, files)
            controls[f"{name}_{version}.deb"] = control
        index(repository, controls)
        data = (repository / "Packages").read_bytes()
        fields_of_release = {"Origin": ORIGIN, "Suite": "test", **(release or {})}
        (repository / "Release").write_text(
            "".join(f"{key}: {value}\n" for key, value in fields_of_release.items())
            + "Architectures: amd64 all\nDate: Mon, 30 Nov 2026 "
            f"00:00:00 UTC\nSHA256:\n {hashlib.sha256(data).hexdigest()} {len(data)} Packages\n"
        )
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            tar.add(repository, arcname=".")
    packed = base64.b64encode(buffer.getvalue()).decode()
    source, name = f"deb [trusted=yes] file:{folder} ./", Path(folder).name
    node.run(
        f"rm -rf {folder}; mkdir -p {folder}; base64 -d <<'END' | tar -xz -C {folder}\n"
        f"{packed}\nEND\n"
        f"echo '{source}' > /etc/apt/sources.list.d/{name}.list; apt-get -q update"
    )


def versions(node: Node, *names: str) -> dict[str, str]:
    """Installed versions; packages that are not installed are left out."""
    show = "dpkg-query -W -f='${Package} ${Version} ${db:Status-Status}\\n' " + " ".join(names)
    rows = (line.split() for line in node.run(f"{show} 2>/dev/null || true").splitlines())
    return {row[0]: row[1] for row in rows if row[-1] == "installed"}


def _control(name: str, version: str) -> str:
    return (
        f"Package: {name}\nVersion: {version}\nArchitecture: all\n"
        f"Maintainer: test <test@localhost>\nDescription: nothing\n"
    )


def _build(repository: Path, name: str, control: str, files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        (root / "DEBIAN").mkdir(parents=True, mode=0o755)
        root.chmod(0o755)
        (root / "DEBIAN/control").write_text(control)
        for path, data in files.items():
            at = root / path.lstrip("/")
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(data)
            at.chmod(0o755)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Znone", "-b", str(root), str(repository / name)],
            check=True,
            capture_output=True,
        )
