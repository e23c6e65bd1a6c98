"""The Docker command line, with errors that say what was attempted."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuferry.errors import PrerequisiteMissing, StepFailed
from gpuferry.paths import data_dir

LABEL_STACK = "gpuferry.stack"
LABEL_ROOT = "gpuferry.root"
LABEL_SPEC = "gpuferry.spec"


def docker(*arguments: str, stdin: bytes | None = None, timeout_seconds: float = 120) -> str:
    """Run `docker ARGUMENTS` and return its stdout.

    Raises:
        PrerequisiteMissing: no Docker client, or no engine answers.
        StepFailed: Docker refused; the message is Docker's own last line.
    """
    result = _run(arguments, stdin, timeout_seconds)
    if result.returncode != 0:
        said = result.stderr.decode(errors="replace").strip()
        if "Cannot connect to the Docker daemon" in said:
            raise PrerequisiteMissing(
                "The Docker engine does not answer. Run `./ferry doctor` to see why, or "
                "`./ferry up`, which starts it."
            )
        last = said.splitlines()[-1] if said else f"exit status {result.returncode}"
        raise StepFailed(f"docker {' '.join(arguments[:2])} failed: {last}")
    return result.stdout.decode(errors="replace")


def _run(
    arguments: tuple[str, ...], stdin: bytes | None, timeout_seconds: float
) -> subprocess.CompletedProcess[bytes]:
    if shutil.which("docker") is None:
        raise PrerequisiteMissing("The docker command is missing. Run `./ferry doctor`.")
    try:
        return subprocess.run(
            ["docker", *arguments],
            input=stdin if stdin is not None else b"",
            capture_output=True,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise StepFailed(
            f"docker {' '.join(arguments[:2])} did not finish within {timeout_seconds:.0f} s."
        ) from None


class ContainerFile(NamedTuple):
    """A file to put into a container; a directory where `text` is None; a link to `link`."""

    path: str
    text: str | bytes | None
    mode: int = 0o600
    owner: int = 0
    link: str = ""


def put_files(container: str, files: Sequence[ContainerFile]) -> None:
    """Put files into a container that need not run; their contents touch no disk here."""
    docker("cp", "--archive", "-", f"{container}:/", stdin=tar_of(files))


def tar_of(files: Sequence[ContainerFile]) -> bytes:
    """The files as a tar archive, in this order."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for file in files:
            data = file.text.encode() if isinstance(file.text, str) else file.text or b""
            entry = tarfile.TarInfo(file.path)
            entry.type = _tar_type(file)
            entry.linkname = file.link
            entry.mode, entry.uid, entry.gid = file.mode, file.owner, file.owner
            entry.size, entry.mtime = len(data), int(time.time())
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _tar_type(file: ContainerFile) -> bytes:
    if file.link:
        return tarfile.SYMTYPE
    return tarfile.DIRTYPE if file.text is None else tarfile.REGTYPE


def inspect(kind: str, name: str) -> dict[str, Any] | None:
    """Return `docker KIND inspect NAME`, or None when there is no such thing."""
    try:
        found = json.loads(docker(kind, "inspect", name))
    except StepFailed as error:
        if "no such" in str(error).lower() or "not found" in str(error).lower():
            return None
        raise
    return dict(found[0])


def labelled(kind: str, stack: str) -> list[str]:
    """Names of all things of a kind (`container`, `network`, `volume`) that a stack of ours owns.

    Another gpuferry on this machine (another data folder) may have a stack of the same name.
    """
    arguments = ["container", "ls", "--all"] if kind == "container" else [kind, "ls"]
    name = "{{.Names}}" if kind == "container" else "{{.Name}}"
    filters = (f"label={LABEL_STACK}={stack}", f"label={LABEL_ROOT}={data_dir()}")
    wanted = [part for text in filters for part in ("--filter", text)]
    return docker(*arguments, *wanted, "--format", name).split()
