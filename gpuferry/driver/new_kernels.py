"""A kernel that an upgrade brings must find its NVIDIA module, or it boots without a driver."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuferry.driver import gates, kernels
from gpuferry.driver.facts import Facts, Simulation
from gpuferry.driver.packages import Package
from gpuferry.driver.refusal import Refused

_IMAGE = re.compile(r"linux-image-(?:unsigned-)?(\d\S*?)(?:-unsigned)?$")
# The branch is in the name; linux-modules-nvidia-fs- is another module.
_PREBUILT = re.compile(r"linux-modules-nvidia-\d{3}\S*")
_DKMS = re.compile(r"nvidia-\S*dkms")


def have_a_module(facts: Facts, found: Simulation) -> None:
    """Judge the set that apt would install.

    Raises:
        Refused: a kernel would come without headers where DKMS builds, without a prebuilt module
            where those are used, or where nothing is known to bring one.
    """
    after = (set(facts.packages) - set(found.remove)) | {p.name for p in found.install}
    dkms = _builds_here(facts, after)
    prebuilt = sorted(name for name in after if _PREBUILT.match(name))
    own = facts.module.loaded and not facts.virtualization.container
    if not (dkms or prebuilt or own):
        return
    for release in _new_releases(facts, found):
        if any(name.endswith(f"-{release}") for name in prebuilt):
            continue
        if dkms and f"linux-headers-{release}" in after:
            for package in _modules(facts, found, after):
                what = f"{package.name} {package.version}"
                image = Package(name="linux-image", version=release)
                kernels.refuse_beyond(image, kernels.of_installed(facts, package), what)
            continue
        suffix = gates.kernel_suffix(facts)
        if dkms:
            raise Refused(
                "no_headers",
                f"kernel {release} would come without its headers, and DKMS would build no module",
                f"install the headers' metapackage too: linux-headers-{suffix}",
            )
        if prebuilt:
            raise Refused(
                "no_module",
                f"kernel {release} would come without a prebuilt module, and boot without a driver",
                f"install the modules' metapackage too: {_metapackage(prebuilt[0], suffix)}, then "
                "./ferry driver upgrade NAME --accept",
                "leave kernel_change out of driver.allow until the archive has the module",
            )
        raise Refused(
            "no_module",
            f"kernel {release} would come, and no package is known to bring its NVIDIA module",
            "leave kernel_change out of driver.allow, and move the kernel by hand",
        )


def _builds_here(facts: Facts, after: Iterable[str]) -> bool:
    """Packages tell what will be; `dkms status` also knows what came without a package."""
    if any(_DKMS.match(name) for name in facts.packages):
        return any(_DKMS.match(name) for name in after)
    return bool(facts.dkms) or any(_DKMS.match(name) for name in after)


def _modules(facts: Facts, found: Simulation, after: Iterable[str]) -> list[Package]:
    """The packages that DKMS builds from, in the versions that will be there."""
    coming = {p.name: p.version for p in found.install}
    there = {name: package.version for name, package in facts.packages.items()}
    versions = {**there, **coming}
    names = sorted(name for name in after if _DKMS.match(name) and name in versions)
    return [Package(name=name, version=versions[name]) for name in names]


def _new_releases(facts: Facts, found: Simulation) -> list[str]:
    named = [_IMAGE.match(p.name) for p in found.install if p.name not in facts.packages]
    releases = (match.group(1) for match in named if match)
    return sorted({r for r in releases if not r.endswith("-dbg")})


def _metapackage(name: str, suffix: str) -> str:
    """`linux-modules-nvidia-580-server-generic` of `…-580-server-6.8.0-79-generic`."""
    return re.sub(r"-\d+\.\d+\.\S*$", f"-{suffix}", name)
