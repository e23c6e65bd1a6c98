"""What is there already: a driver that works is left alone."""

from __future__ import annotations

from gpuferry.driver.facts import Facts, branch_of
from gpuferry.driver.needs import Needs
from gpuferry.driver.refusal import Refused
from gpuferry.driver.wish import Wish


def unfit(facts: Facts, wish: Wish, needs: Needs) -> str:
    """Why the driver that works is not what is wanted, or an empty string."""
    module = facts.module
    branch = branch_of(module.version)
    if wish.branch and wish.branch_number != branch:
        return f"branch {wish.branch_number} is wanted, {module.version} is there"
    if wish.exact and wish.exact != module.version:
        return f"version {wish.exact} is wanted, {module.version} is there"
    if wish.flavour not in ("auto", module.flavour):
        return f"the {wish.flavour} modules are wanted, the {module.flavour} ones are there"
    # What works is not argued with; what does not may be the wrong branch for the GPU.
    judged = needs.open != "either" or not facts.works
    return needs.problem(branch, module.flavour) if judged else ""


def after_reboot(facts: Facts, wish: Wish) -> str:
    """Why a reboot is all that is missing, or an empty string."""
    module, library = facts.module, facts.library
    if not library.version or module.disk_version != library.version:
        return ""
    if wish.branch and wish.branch_number != branch_of(library.version):
        return ""
    if module.loaded and module.version != library.version:
        return f"module {module.version} is loaded, {library.version} is installed"
    if not module.loaded and facts.nouveau_holds:
        return f"{library.version} is installed, but nouveau holds the GPUs"
    return ""


def only_to_load(facts: Facts, wish: Wish) -> bool:
    """Whether an installed module that fits only has to be loaded."""
    module = facts.module
    fits = not wish.branch or wish.branch_number == branch_of(module.disk_version)
    fits = fits and wish.flavour in ("auto", module.disk_flavour)
    same = bool(module.disk_version) and module.disk_version == facts.library.version
    return same and fits and not module.loaded and not facts.nouveau_holds


def kept_wish(facts: Facts, wish: Wish) -> Wish:
    """A driver is finished, or changed in one respect; what is there counts as wished.

    That is its branch, and the flavour where another was not asked for.
    """
    version = facts.library.version or next((d.version for d in facts.dkms), "")
    if wish.branch or not branch_of(version):
        return wish
    kept: dict[str, str] = {"branch": str(branch_of(version))}
    if wish.flavour == "auto" and (flavour := _flavour(facts)):
        kept["flavour"] = flavour
    return wish.model_copy(update=kept)


def _flavour(facts: Facts) -> str:
    """The flavour on disk, or the one that the names of installed packages tell."""
    names = [n for n in facts.packages if n.startswith("nvidia-") and "dkms" in n]
    told = {"open" if "open" in name else "proprietary" for name in names}
    return facts.module.disk_flavour or (told.pop() if len(told) == 1 else "")


def refuse_a_fault(facts: Facts) -> None:
    """Refuse where the driver hangs, or is whole and a GPU is not."""
    if facts.nvidia_smi.state == "hung":
        raise Refused(
            "driver_hung",
            "the driver hangs (nvidia-smi did not answer within its deadline), and changing "
            "packages under it makes it worse",
            "look for an Xid in the kernel's log: journalctl -k | grep NVRM",
            "reboot the server, then plan again",
            *(["take an injected fault away: ./ferry sim NAME clear"] if facts.simulated else []),
        )
    if facts.sick:
        raise Refused(
            "gpu_fault",
            f"driver {facts.module.version} is loaded and whole, but nvidia-smi ends with code "
            f"{facts.nvidia_smi.code}: a GPU's fault, which no package mends",
            "see which GPU it is, and what the kernel's log says: ./ferry check --only gpu",
            "reset the GPU (sudo nvidia-smi --gpu-reset) or reboot, then plan again",
            "ask the provider for another server if the fault comes back",
        )


def refuse_what_cannot_be_mended(facts: Facts) -> None:
    """Refuse where another installer is in the way."""
    if facts.runfile.marks:
        raise Refused(
            "runfile",
            f"a driver came from NVIDIA's .run installer ({facts.runfile.marks[0]}); apt knows "
            "nothing of it, and two drivers overwrite each other's files",
            "remove it: sudo nvidia-uninstall, then reboot",
            "keep it: a .run driver that works and fits the wish is left alone",
        )


def not_built_for(facts: Facts) -> str:
    """The module that DKMS holds, but not for the running kernel; or an empty string."""
    if not facts.dkms or facts.module.disk_version:
        return ""
    here = [d for d in facts.dkms if d.kernel == facts.kernel.release and d.state == "installed"]
    return "" if here else f"{facts.dkms[0].module}/{facts.dkms[0].version}"
