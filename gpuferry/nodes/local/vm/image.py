"""Container images that hold QEMU and a bootable disk; built once, cached by their content."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from gpuferry.errors import StepFailed
from gpuferry.nodes.local import image
from gpuferry.nodes.local.docker import ContainerFile, docker, inspect, put_files
from gpuferry.nodes.local.vm import guest
from gpuferry.turns import turn

INSIDE = Path(__file__).parent / "inside"
SYSTEM_GIB = 32  # sparse: what is really written counts

_RUNNER_SUITE = "debian-13"
_RUNNER_PACKAGES = (
    "qemu-system-x86,qemu-utils,ovmf,iproute2,python3,e2fsprogs,dosfstools,mtools,fdisk,"
    "ca-certificates"
)
_RECIPE = 1  # raise when the build changes what it makes


def reference(name: str, packages: tuple[str, ...] = ()) -> str:
    """The tag for `debian-13` or `debian-12` on this machine, built or not.

    `packages` come beside the ones that every machine needs.
    """
    inputs = [_RECIPE, name, _packages(packages), guest.files(), guest.HOOKS, SYSTEM_GIB]
    inputs += [image.reference(name), _runner(), (INSIDE / "make_disk.sh").read_text()]
    return f"gpuferry/vm:{name}-{_digest(inputs)}"


def _packages(more: tuple[str, ...]) -> str:
    return ",".join([guest.PACKAGES, *more])


def _runner() -> str:
    inputs = [_RECIPE, _RUNNER_SUITE, _RUNNER_PACKAGES, image.reference(_RUNNER_SUITE)]
    return f"gpuferry/qemu:{_digest(inputs)}"


def _digest(inputs: list[object]) -> str:
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:12]


def ensure(name: str, say: Callable[[str], None], packages: tuple[str, ...] = ()) -> str:
    """Build what is missing; return the tag."""
    tag = reference(name, packages)
    if inspect("image", tag) is not None:
        return tag
    with turn(f"the image {_runner()}", say):
        if inspect("image", _runner()) is None:
            say("building the image with QEMU, once (about 30 s)")
            _build_runner()
    with turn(f"the image {tag}", say):
        if inspect("image", tag) is None:
            say(f"building the {name} disk for virtual machines, once (about 1 min)")
            _build_disk(name, tag, _packages(packages))
    return tag


def _build_runner() -> None:
    with tempfile.TemporaryDirectory(prefix="gpuferry-image-") as folder:
        tarball = Path(folder) / "root.tar"
        image.bootstrap(_RUNNER_SUITE, _RUNNER_PACKAGES, tarball)
        docker("import", str(tarball), _runner(), timeout_seconds=300)


def _build_disk(name: str, tag: str, packages: str) -> None:
    """Make the disk in a container of its own, which then becomes the image."""
    with tempfile.TemporaryDirectory(prefix="gpuferry-image-") as folder:
        tarball = Path(folder) / "root.tar"
        image.bootstrap(name, packages, tarball, files=guest.files(), hooks=guest.HOOKS)
        create = ["container", "create", "--env", f"SYSTEM_GIB={SYSTEM_GIB}"]
        builder = docker(*create, _runner(), "bash", "/build/make_disk.sh").strip()
        try:
            script = (INSIDE / "make_disk.sh").read_text()
            put_files(builder, [ContainerFile("build/make_disk.sh", script)])
            docker("cp", str(tarball), f"{builder}:/build/root.tar", timeout_seconds=300)
            docker("start", "--attach", builder, timeout_seconds=600)
            docker("commit", "--change", "CMD []", builder, tag, timeout_seconds=300)
        except StepFailed as error:
            said = docker("logs", "--tail", "3", builder).strip()
            raise StepFailed(f"Making the {name} disk failed: {error} {said}") from None
        finally:
            docker("container", "rm", "--force", builder)
