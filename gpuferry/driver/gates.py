"""Gates between a chosen offer and a plan: each refuses before anything is touched."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from gpuferry.driver.facts import Facts, Simulation
from gpuferry.driver.mig import problem as mig_problem
from gpuferry.driver.packages import Package
from gpuferry.driver.refusal import Refused
from gpuferry.driver.wish import Wish

_DRIVERS = ("nvidia-*", "libnvidia-*", "libcuda1", "cuda-drivers*", "firmware-nvidia*")
_RUNTIMES = ("docker*", "containerd*", "nvidia-container-toolkit*")


def mig(facts: Facts, wish: Wish) -> None:
    """Refuse MIG instances that the GPUs cannot be cut into."""
    for index, gpu in enumerate(facts.gpus):
        if why := mig_problem(gpu.device, (wish.mig or {}).get(index, [])):
            raise Refused(
                "mig",
                f"GPU {index} ({gpu.address}): {why}",
                "correct servers[].gpu.mig in the stack file",
            )


def machine(facts: Facts) -> None:
    """Refuse where no module can be loaded, or the kernel is one that NVIDIA does not support."""
    kernel = facts.kernel
    if not kernel.modules_loadable:
        raise Refused(
            "no_modules",
            f"kernel {kernel.release} loads no modules (built without them, or "
            "kernel.modules_disabled=1)",
            "boot a distribution's kernel",
            "set kernel.modules_disabled=0 and reboot",
        )
    # Debian's are named -rt, Ubuntu's -realtime; Ubuntu's older ones -lowlatency, which build.
    if {"rt", "realtime"} & set(kernel.release.split("-")):
        raise Refused(
            "realtime_kernel",
            f"kernel {kernel.release} is a real-time kernel; NVIDIA's module does not build on it",
            "boot the distribution's ordinary kernel",
        )
    if not kernel.module_folder:
        raise Refused(
            "kernel_removed",
            f"/lib/modules/{kernel.release} is gone: the running kernel was removed or upgraded",
            "reboot into an installed kernel, then plan again",
        )


def sources(facts: Facts) -> None:
    """Refuse while apt itself refuses to work (NVIDIA/cuda-repo-management#4)."""
    for conflict in facts.apt.conflicts:
        raise Refused(
            "signed_by_conflict",
            f"apt does not work: {' and '.join(conflict.files)} name one source "
            f"({conflict.uri}) with different keys",
            f"remove one of the two files, then: sudo apt-get update ({conflict.files[-1]} is "
            "usually the older)",
        )


def headers(facts: Facts, wish: Wish, *, built_here: bool) -> tuple[list[Package], bool]:
    """Headers to install, and whether that means another kernel.

    The headers' metapackage is never used by itself: in Debian 13 it pulls in a newer kernel.

    Raises:
        Refused: no headers can be had for the running kernel.
    """
    kernel = facts.kernel
    name = f"linux-headers-{kernel.release}"
    if not built_here or kernel.headers_installed:
        return [], False
    if name in facts.candidates or not facts.apt.lists:
        version = facts.candidates[name].candidate if name in facts.candidates else ""
        return [Package(name=name, version=version)], False
    suffix = kernel_suffix(facts)
    metas = [f"linux-image-{suffix}", f"linux-headers-{suffix}"]
    if "kernel_change" in wish.allow and all(meta in facts.candidates for meta in metas):
        found = [Package(name=m, version=facts.candidates[m].candidate) for m in metas]
        return found, True
    others = [name for name in kernel.installed if name != kernel.release]
    raise Refused(
        "no_headers",
        f"apt has no {name}, and without headers no module is built for the running kernel",
        f"allow a newer kernel with its headers: driver.allow: [kernel_change] ({metas[0]})",
        f"reboot into {others[-1]}, which is installed, then plan again"
        if others
        else "boot a kernel that has headers, then plan again",
    )


def kernel_suffix(facts: Facts) -> str:
    """`cloud-amd64`, `amd64` or `generic`: the tail of a kernel's metapackage."""
    if facts.os.id == "ubuntu":
        return facts.kernel.release.rsplit("-", 1)[-1]
    cloud = "cloud-" if "-cloud-" in facts.kernel.release else ""
    return f"{cloud}{facts.os.architecture}"


def holds(facts: Facts, packages: Sequence[Package]) -> None:
    """Refuse to change what somebody holds."""
    held = [
        f"{p.name} {facts.packages[p.name].version}"
        for p in packages
        if p.name in facts.packages
        and facts.packages[p.name].held
        and p.version not in ("", facts.packages[p.name].version)
    ]
    if held:
        raise Refused(
            "held",
            f"these packages are held at other versions: {', '.join(held)}",
            "move the whole set on purpose: ./ferry driver upgrade NAME",
            "release them: sudo apt-mark unhold NAME",
        )


def interrupts(facts: Facts, wish: Wish, what: str) -> list[str]:
    """The work that a change would end.

    Raises:
        Refused: there is some, and it may not be disturbed.
    """
    work = facts.use.work
    if work and "disturb" not in wish.allow:
        raise Refused(
            "in_use",
            f"{what} would end work on the GPUs: {', '.join(work[:5])}"
            f"{f' and {len(work) - 5} more' if len(work) > 5 else ''}",
            "let it finish or stop it (drain), then plan again",
            "interrupt it: driver.allow: [disturb], or for once ./ferry converge --disturb",
        )
    return work


def simulation_of(facts: Facts, packages: Sequence[Package]) -> Simulation | None:
    """What apt said about exactly this set, if it was asked."""
    wanted = sorted(package.argument for package in packages)
    asked = [s for s in facts.simulations if s.state != "absent"]
    return next((s for s in asked if sorted(s.arguments) == wanted), None)


def simulated(facts: Facts, wish: Wish, found: Simulation, *, planned: Sequence[str]) -> list[str]:
    """Judge what apt would do with the planned packages; returns what it would remove.

    Raises:
        Refused: apt cannot, or would pull in a kernel, or remove a driver or container engine.
    """
    if found.state != "ok":
        raise Refused(
            "apt_cannot",
            f"apt cannot install the set: {found.problem or found.state}",
            "mend apt's state (sudo apt-get -f install), or choose another source or branch",
        )
    kernels = [p.name for p in found.install if p.name.startswith("linux-image-")]
    # The image of the kernel that runs is no other kernel, whoever put it there.
    known = {*facts.packages, f"linux-image-{facts.kernel.release}"}
    kernels = [name for name in kernels if name not in known]
    meant = any(name.startswith("linux-image-") for name in planned)
    if kernels and not meant and "kernel_change" not in wish.allow:
        raise Refused(
            "pulls_kernel",
            f"the package set pulls in {', '.join(kernels)} while {facts.kernel.release} runs; "
            "after a reboot the module might be missing",
            "allow it: driver.allow: [kernel_change]",
            "upgrade and reboot into the new kernel first, then plan again",
        )
    runtimes = [name for name in found.remove if _any(name, _RUNTIMES)]
    drivers = [name for name in found.remove if _any(name, _DRIVERS) and name not in runtimes]
    if runtimes:
        raise Refused(
            "removes_runtime",
            f"the package set removes {', '.join(runtimes)}",
            "resolve the conflict by hand; the plan never removes a container engine",
        )
    if drivers and "remove_driver" not in wish.allow:
        raise Refused(
            "removes_driver",
            f"the package set removes the present driver: {', '.join(drivers[:6])}",
            "allow it: driver.allow: [remove_driver]",
            "keep the present source and branch",
        )
    return found.remove


def _any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
