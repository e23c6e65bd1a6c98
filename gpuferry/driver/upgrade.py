"""Which members of the frozen set move to which versions, together, or why none may. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from gpuferry.driver import gates, new_kernels
from gpuferry.driver.facts import Candidate, Facts, Simulation, branch_of, upstream
from gpuferry.driver.offers import without_prebuilt
from gpuferry.driver.packages import Package, match
from gpuferry.driver.plan import plan_driver
from gpuferry.driver.refusal import Refusal, Refused
from gpuferry.driver.wish import Wish
from gpuferry.shared import shared

_KERNEL = re.compile(r"linux-(image|headers|modules|kbuild)-")
# Debian's and Ubuntu's names for the library or tool whose version is the driver's.
_ANCHOR = re.compile(r"(nvidia-smi|libnvidia-ml1|libnvidia-compute-\d+.*|nvidia-utils-\d+.*)$")


class Move(BaseModel):
    """One package; `old` is empty for one that comes, `new` for one that goes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    old: str = ""
    new: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.old or '(absent)'} -> {self.new or '(removed)'}"


class UpgradePlan(BaseModel):
    """What would move.

    `packages` is what apt is asked for; `moves` is all that apt would do, known once it was asked
    (`simulated`). No packages and no refusal: nothing to do.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    packages: list[Package] = []
    moves: list[Move] = []
    simulated: bool = False
    reboot: bool = False
    disturbs: list[str] = []
    notes: list[str] = []
    refusal: Refusal | None = None


def plan_upgrade(
    facts: Facts, members: Mapping[str, str], frozen: Mapping[str, str], wish: Wish, to: str = ""
) -> UpgradePlan:
    """Decide what moves.

    `facts` are gathered with the pins out of the way; `members` are the installed packages of the
    frozen families with their versions, `frozen` the recorded ones; `to` is a driver branch or an
    exact version, empty for the newest of everything within the driver's branch.
    """
    facts = _released(facts)
    try:
        try:
            return _plan(facts, members, frozen, wish, to)
        except Refused as refused:
            instead = without_prebuilt(facts) if refused.refusal.reason == "apt_cannot" else None
            if instead is None:
                raise
            return _plan(instead, members, frozen, wish, to)
    except Refused as refused:
        return UpgradePlan(refusal=refused.refusal)


def _released(facts: Facts) -> Facts:
    """The same facts without holds: what this command is for."""
    packages = {n: p.model_copy(update={"held": False}) for n, p in facts.packages.items()}
    return facts.model_copy(update={"packages": packages})


def _plan(
    facts: Facts, members: Mapping[str, str], frozen: Mapping[str, str], wish: Wish, to: str
) -> UpgradePlan:
    if not frozen:
        raise Refused(
            "not_frozen",
            "nothing is frozen on this server, so there is no set to move",
            "freeze what is installed: ./ferry converge; only servers that declare gpu are frozen",
        )
    _fits_the_stack_file(wish, to)
    gates.sources(facts)
    notes = [f"not as frozen before: {said}" for said in shared("freeze").moved(frozen, members)]
    wanted, more = _targets(facts, members, wish, to)
    notes += more
    packages = [p for p in wanted if p.version != members.get(p.name)]
    if not packages:
        return UpgradePlan(notes=notes)
    found = gates.simulation_of(facts, packages)
    if found is None:
        return UpgradePlan(packages=packages, notes=notes)
    moves = _judged(facts, members, wish, packages, found)
    kernel = any(_KERNEL.match(move.name) for move in moves)
    driver = any(_driver_member(facts, members, move.name) for move in moves)
    real = not facts.virtualization.container
    return UpgradePlan(
        packages=packages,
        moves=moves,
        simulated=True,
        reboot=real and (kernel or (driver and facts.module.loaded)),
        disturbs=facts.use.work,
        notes=notes,
    )


def _fits_the_stack_file(wish: Wish, to: str) -> None:
    branch = int(to.split(".")[0]) if to else 0
    exact = bool(wish.exact) and to != wish.exact
    if to and wish.branch and (exact or wish.branch_number != branch):
        raise Refused(
            "other_wish",
            f"--to {to} is not what the stack file wishes (driver.branch: {wish.branch}); the next "
            "converge would undo it",
            f'set driver.branch: "{to}" in the stack file, deploy with ./ferry up, then upgrade',
            "leave driver.branch out of the stack file",
        )


def _targets(
    facts: Facts, members: Mapping[str, str], wish: Wish, to: str
) -> tuple[list[Package], list[str]]:
    """What to ask apt for, and remarks about what stays."""
    asked = to or wish.branch or ""
    version = _driver_version(facts, members)
    driver = [name for name in members if _driver_member(facts, members, name)]
    other_branch = bool(asked) and int(asked.split(".")[0]) != branch_of(version)
    if other_branch and not facts.simulated:
        return _by_plan(facts, wish, asked), []
    found: list[Package] = []
    notes: list[str] = []
    hosts = bool(facts.virtualization.container) and not facts.simulated
    if (to and not driver) or (to and hosts):
        why = "its host's" if hosts else "not among the frozen packages"
        raise Refused("no_driver", f"the driver of this server is {why}", "leave --to out")
    if driver and not hosts:
        branch = int(asked.split(".")[0]) if asked else branch_of(version)
        exact = asked if "." in asked else ""
        matched = match(driver, _newer(facts, driver), branch=branch, exact=exact)
        if matched.problem and asked:
            raise Refused(
                "not_offered",
                matched.problem,
                "name a branch or version that the sources have; the newest is shown by "
                "./ferry driver upgrade NAME --plan",
            )
        notes += [f"the driver stays at {version}: {matched.problem}"] if matched.problem else []
        found += [p for p in matched.packages if p.version]
    if not to:
        others, more = _newest(facts, members, wish, exclude=driver)
        found, notes = [*found, *others], [*notes, *more]
    return found, notes


def _newer(facts: Facts, names: list[str]) -> dict[str, Candidate]:
    return {name: facts.candidates.get(name, Candidate()) for name in names}


def _by_plan(facts: Facts, wish: Wish, to: str) -> list[Package]:
    """Another branch is another plan: the driver plan's own."""
    # Work is drained before anything moves, and this command reboots where it must.
    allow = sorted({*wish.allow, "disturb", "reboot"})
    asked = wish.model_copy(update={"branch": to, "allow": allow})
    # apt's opinion about the set is judged here, where a renamed package is no removed driver.
    plan = plan_driver(facts.model_copy(update={"simulations": []}), asked)
    if plan.refusal:
        refusal = plan.refusal
        raise Refused(refusal.reason, refusal.sentence, *refusal.options)
    if unknown := [p.name for p in plan.packages if not p.version]:
        raise Refused(
            "source_missing",
            f"the sources of this server have no {', '.join(unknown[:4])}"
            + (f"; needed: {', '.join(plan.adds)}" if plan.adds else ""),
            "configure the source first (driver.source in the stack file, then ./ferry converge)",
        )
    return plan.packages


def _newest(
    facts: Facts, members: Mapping[str, str], wish: Wish, exclude: list[str]
) -> tuple[list[Package], list[str]]:
    found, kept = [], []
    for name in members:
        candidate = facts.candidates.get(name, Candidate()).candidate
        if name in exclude or not candidate or candidate == members[name]:
            continue
        if _KERNEL.match(name) and "kernel_change" not in wish.allow:
            kept.append(f"{name} {candidate}")
        else:
            found.append(Package(name=name, version=candidate))
    said = f"the kernel stays (driver.allow: [kernel_change] moves it): {', '.join(kept)}"
    return found, [said] if kept else []


def _driver_version(facts: Facts, members: Mapping[str, str]) -> str:
    anchors = [name for name in members if _ANCHOR.match(name)]
    return upstream(members[sorted(anchors)[-1]]) if anchors else facts.library.version


def _driver_member(facts: Facts, members: Mapping[str, str], name: str) -> bool:
    """Whether a package has the driver's version, which all of these share."""
    version = _driver_version(facts, members)
    if name not in members:
        return bool(_ANCHOR.match(name))
    return bool(branch_of(version)) and upstream(members[name]) == version


def _judged(
    facts: Facts, members: Mapping[str, str], wish: Wish, packages: list[Package], found: Simulation
) -> list[Move]:
    """All that apt would do, or a refusal."""
    coming = {_stem(package.name) for package in found.install}
    # A branch in the name: nvidia-utils-550 goes when nvidia-utils-580 comes.
    gone = [name for name in found.remove if _stem(name) not in coming]
    rest = found.model_copy(update={"remove": gone})
    removed = gates.simulated(facts, wish, rest, planned=[p.name for p in packages])
    if removed and "remove_driver" not in wish.allow:
        raise Refused(
            "removes",
            f"the package set removes {', '.join(removed[:6])}",
            "resolve the conflict by hand; an upgrade moves packages, it does not drop them",
        )
    new_kernels.have_a_module(facts, found)
    moves = [Move(name=p.name, old=p.old, new=p.version) for p in found.install]
    return moves + [Move(name=name, old=members.get(name, "?")) for name in found.remove]


def _stem(name: str) -> str:
    return re.sub(r"-\d{3}(?=-|$)", "", name)
