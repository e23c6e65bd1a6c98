"""The plan: facts and a wish in, a decision or a refusal out. Pure: nothing is read or changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gpuferry.driver import gates, kernels, present
from gpuferry.driver.cuda import plan_cuda
from gpuferry.driver.decision import Plan
from gpuferry.driver.facts import Facts, branch_of
from gpuferry.driver.needs import Needs, needs_of
from gpuferry.driver.offers import Offer, choose, module_limit, without_prebuilt
from gpuferry.driver.packages import Package, distribution_row, match
from gpuferry.driver.refusal import Refused
from gpuferry.driver.user_space import container_plan, simulated_plan
from gpuferry.driver.wish import Wish


def plan_driver(facts: Facts, wish: Wish | None = None) -> Plan:
    """Decide about the driver, CUDA and what goes with them; never raises for known facts."""
    wish = wish or Wish()
    try:
        try:
            plan = _judged(_plan(facts, wish), facts, wish)
        except Refused as refused:
            plan = _built_here(facts, wish, refused)
    except Refused as refused:
        return Plan(action="refuse", refusal=refused.refusal)
    return plan.model_copy(update={"notes": [*plan.notes, *_count_note(facts, wish)]})


def unasked(plan: Plan, asked: Sequence[Sequence[str]]) -> list[str]:
    """The package set that apt is still to be asked about, beside those that it was asked about.

    The answers to all of them decide: a set that cannot be installed may lead to another one.
    """
    arguments = [package.argument for package in plan.packages]
    known = any(sorted(words) == sorted(arguments) for words in asked)
    return [] if plan.simulated_by_apt or known else arguments


def _count_note(facts: Facts, wish: Wish) -> list[str]:
    """A number that differs is no reason to refuse: the check `gpu.count` fails on it."""
    there = len(facts.gpus)
    if wish.gpus in (0, there) or not there:
        return []
    return [f"{wish.gpus} GPU(s) are declared, {there} on PCI"]


def _built_here(facts: Facts, wish: Wish, refused: Refused) -> Plan:
    """The module by DKMS, where apt cannot install a prebuilt one.

    Raises:
        Refused: the reason was another one, or that is refused as well.
    """
    instead = without_prebuilt(facts) if refused.refusal.reason == "apt_cannot" else None
    if instead is None:
        raise refused
    plan = _judged(_plan(instead, wish), instead, wish)
    why = f"no prebuilt module: {refused.refusal.sentence}"
    return plan.model_copy(update={"reasons": [*plan.reasons, why]})


def _plan(facts: Facts, wish: Wish) -> Plan:
    if not facts.gpus:
        return _without_gpu(wish)
    if facts.nvidia_smi.state == "hung":
        # A rehearsal too: every later step would ask again, and wait as long.
        present.refuse_a_fault(facts)
    gates.mig(facts, wish)
    if facts.simulated:
        return simulated_plan(facts, wish)
    if any(gpu.vgpu for gpu in facts.gpus):
        return _guest(facts)
    ours = [gpu for gpu in facts.gpus if gpu.driver != "vfio-pci"]
    if not ours:
        raise Refused(
            "passed_through",
            "all GPUs are bound to vfio-pci: they belong to virtual machines of this host",
            "plan inside the virtual machine",
            "unbind them from vfio-pci",
        )
    told = bool(wish.branch) and wish.flavour != "auto"
    needs = needs_of(facts.pci, ours, told=told or facts.works or facts.sick)
    if facts.virtualization.container:
        return container_plan(facts, wish, needs)
    return _on_metal(facts, wish, needs)


def _guest(facts: Facts) -> Plan:
    if facts.works:
        return Plan(
            action="leave",
            source="present",
            branch=branch_of(facts.module.version),
            version=facts.module.version,
            flavour=facts.module.flavour,
            reasons=["the GPU is virtual: its driver and licence are the host's affair"],
        )
    if facts.sick:
        present.refuse_a_fault(facts)
    raise Refused(
        "vgpu_guest",
        "the GPU is virtual: its driver (GRID) and licence come from whoever runs the host, in "
        "the host's version",
        "install the provider's GRID driver by hand; when it works it is left alone",
        "rent a server with whole GPUs",
    )


def _without_gpu(wish: Wish) -> Plan:
    if wish.gpus:
        raise Refused(
            "no_gpu",
            f"{wish.gpus} GPU(s) are declared, but no NVIDIA GPU is on PCI",
            "correct servers[].gpu in the stack file",
            "ask the provider: the server may be of another type, or the GPU not passed through",
        )
    return Plan(action="none", reasons=["no NVIDIA GPU is on PCI"])


def _on_metal(facts: Facts, wish: Wish, needs: Needs) -> Plan:
    change = present.unfit(facts, wish, needs) if facts.works or facts.sick else ""
    if facts.works and not change:
        return _leave(facts, wish, needs)
    if facts.sick and not change:
        present.refuse_a_fault(facts)
    present.refuse_what_cannot_be_mended(facts)
    gates.machine(facts)
    if not change and (why := present.after_reboot(facts, wish)):
        return _settled(facts, wish, needs, "reboot", why)
    if not change and present.only_to_load(facts, wish):
        return _settled(facts, wish, needs, "load", "the module is installed, but not loaded")
    if distribution_row(facts) is None:
        raise Refused(
            "unknown_distribution",
            f"{facts.os.id or 'the system'} {facts.os.version_id} is not known to the rules; "
            "known: Debian 12 and 13, Ubuntu 22.04 and 24.04",
            "rebuild the server with one of these images",
            "install a driver by hand; a working driver is left alone",
        )
    gates.sources(facts)
    offer, why = _chosen(facts, wish, needs)
    return _install(facts, wish, needs, offer, change or why)


def _chosen(facts: Facts, wish: Wish, needs: Needs) -> tuple[Offer, str]:
    """What is installed, and what of the leftovers on the server decided it.

    What is left of another driver counts as wished only where it can be: nobody asked for it, so it
    is no reason to refuse. A driver that is loaded is another matter: its branch is kept.
    """
    kept = present.kept_wish(facts, wish)
    if kept == wish:
        return choose(facts, wish, needs), ""
    try:
        return choose(facts, kept, needs), f"a driver of branch {kept.branch} is there in parts"
    except Refused:
        if facts.module.loaded:
            raise
        offer = choose(facts, wish, needs)
        return (
            offer,
            f"what is left of branch {kept.branch} cannot drive these GPUs or be completed",
        )


def _leave(facts: Facts, wish: Wish, needs: Needs) -> Plan:
    module = facts.module
    notes = []
    if facts.runfile.marks:
        notes.append(
            "the driver came from NVIDIA's .run installer: apt can neither hold nor upgrade it"
        )
    if len(facts.nvidia_smi.gpus) not in (0, len(facts.gpus)):
        notes.append(
            f"{len(facts.gpus)} GPUs are on PCI, nvidia-smi lists {len(facts.nvidia_smi.gpus)}"
        )
    plan = Plan(
        action="leave",
        source="present",
        branch=branch_of(module.version),
        version=module.version,
        flavour=module.flavour,
        fabric_manager=needs.fabric_manager,
        persistence=True,
        reasons=[f"driver {module.version} ({module.flavour}) works and fits the wish"],
        notes=notes,
    )
    return _with_extras(plan, facts, wish, needs, manager=needs.fabric_manager)


def _settled(
    facts: Facts, wish: Wish, needs: Needs, action: Literal["reboot", "load"], why: str
) -> Plan:
    version = facts.library.version
    reboot = action == "reboot"
    plan = Plan(
        action=action,
        source="present",
        branch=branch_of(version),
        version=version,
        flavour=facts.module.disk_flavour,
        fabric_manager=needs.fabric_manager,
        persistence=True,
        nouveau_off=facts.nouveau_holds,
        reboot=reboot,
        disturbs=gates.interrupts(facts, wish, "a reboot") if reboot else [],
        reasons=[why],
        notes=_reboot_note(wish) if reboot else [],
    )
    return _with_extras(plan, facts, wish, needs, manager=needs.fabric_manager)


def _install(facts: Facts, wish: Wish, needs: Needs, offer: Offer, change: str) -> Plan:
    headers, new_kernel = gates.headers(facts, wish, built_here=offer.built_here)
    if new_kernel:
        kernels.refuse_beyond(headers[0], module_limit(offer, facts), offer.title)
    packages = [*offer.packages, *headers]
    gates.holds(facts, packages)
    replaces = facts.module.loaded
    reboot = replaces or facts.nouveau_holds or new_kernel
    disturbs = gates.interrupts(facts, wish, "changing the driver") if replaces else []
    reasons = [f"{offer.title} is the first offer that fits {', '.join(needs.architectures)}"]
    if change:
        reasons.insert(0, change)
    if stale := present.not_built_for(facts):
        reasons.insert(0, f"{stale} is not built for kernel {facts.kernel.release}")
    if facts.nouveau_holds:
        reasons.append("nouveau has to be kept from loading, in the initramfs as well")
    notes = _reboot_note(wish) if reboot else []
    notes += [offer.remark] if offer.remark else []
    if not offer.version:
        notes.append("versions are known once the source is configured; plan again then")
    plan = Plan(
        action="install",
        source=offer.source,
        branch=offer.branch,
        version=offer.version,
        flavour=offer.flavour,
        packages=packages,
        adds=offer.adds,
        fabric_manager=needs.fabric_manager,
        persistence=True,
        nouveau_off=facts.nouveau_holds or not facts.nouveau.blacklisted,
        reboot=reboot,
        disturbs=disturbs,
        reasons=reasons,
        notes=notes,
    )
    return _with_extras(plan, facts, wish, needs, manager=False)


def _reboot_note(wish: Wish) -> list[str]:
    if "reboot" in wish.allow:
        return []
    return ["the reboot is left to you: driver.allow does not name it"]


def _with_extras(plan: Plan, facts: Facts, wish: Wish, needs: Needs, *, manager: bool) -> Plan:
    """Add the fabric manager of a driver that stays, and CUDA."""
    packages = [*plan.packages, *(_manager(facts, plan) if manager else [])]
    cuda = plan_cuda(facts, wish, needs, plan.branch)
    packages += [package for package in cuda.packages if package not in packages]
    return plan.model_copy(
        update={
            "packages": packages,
            "cuda": cuda.packages,
            "adds": list(dict.fromkeys([*plan.adds, *cuda.adds])),
            "notes": [*plan.notes, *cuda.notes],
        }
    )


def _judged(plan: Plan, facts: Facts, wish: Wish) -> Plan:
    """Hear apt's own opinion about the set, where it was asked."""
    if not plan.packages:
        return plan
    gates.sources(facts)
    moving = [p.name for p in plan.packages if _moves(facts, p)]
    if moving and not plan.disturbs:
        disturbs = gates.interrupts(facts, wish, f"changing {', '.join(moving)}")
        plan = plan.model_copy(update={"disturbs": disturbs})
    found = gates.simulation_of(facts, plan.packages)
    if found is None:
        return plan
    removes = gates.simulated(facts, wish, found, planned=[p.name for p in plan.packages])
    return plan.model_copy(update={"removes": removes, "simulated_by_apt": True})


def _moves(facts: Facts, package: Package) -> bool:
    """Whether it would be installed, or come in another version."""
    there = facts.packages.get(package.name)
    return there is None or package.version not in ("", there.version)


def _manager(facts: Facts, plan: Plan) -> list[Package]:
    """The fabric manager in exactly the driver's version, unless it is there.

    Raises:
        Refused: apt does not have that version.
    """
    names = [f"nvidia-fabricmanager-{plan.branch}", "nvidia-fabricmanager"]
    if any(
        name in facts.packages and facts.packages[name].version.startswith(plan.version)
        for name in names
    ):
        return []
    for name in names:
        found = match([name], facts.candidates, branch=plan.branch, exact=plan.version)
        if found.version:
            return found.packages
    raise Refused(
        "no_fabric_manager",
        f"the NVSwitches need a fabric manager of exactly {plan.version}, and apt has none",
        "configure NVIDIA's repository, which keeps older versions",
        f"move the driver to a version that has one: driver.branch: {plan.branch}",
    )
