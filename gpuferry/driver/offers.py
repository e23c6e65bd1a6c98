"""Everything that could be installed on one server, and why most of it does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gpuferry.driver import kernels
from gpuferry.driver.facts import Facts
from gpuferry.driver.needs import Needs
from gpuferry.driver.packages import (
    Package,
    branches_of,
    companions,
    distribution_row,
    filled,
    match,
    newest,
    repository_row,
)
from gpuferry.driver.refusal import Refused
from gpuferry.driver.rules import table
from gpuferry.driver.wish import Wish

_PREBUILT = "linux-modules-nvidia-"
FLAVOURS: tuple[Literal["open", "proprietary"], ...] = ("open", "proprietary")


class Offer(BaseModel):
    """One source, branch and flavour with its packages; `problem` says why it does not fit.

    `last_kernel` is set where a kernel that is too new is the problem.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Literal["distribution", "nvidia"]
    branch: int
    flavour: Literal["open", "proprietary"]
    version: str = ""
    packages: list[Package] = []
    kernel_packages: list[str] = []
    built_here: bool = True
    adds: list[str] = []
    problem: str = ""
    last_kernel: str = ""
    remark: str = ""

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.source} {self.branch} {self.flavour}"


def choose(facts: Facts, wish: Wish, needs: Needs) -> Offer:
    """The first offer that fits: the distribution's own before NVIDIA's repository.

    Raises:
        Refused: none fits.
    """
    offers = list(offers_for(facts, wish, needs))
    for offer in offers:
        if not offer.problem:
            return offer
    if not offers:
        raise Refused(
            "not_offered",
            f"nothing is known that offers {_wanted(wish)} for {facts.os.id} "
            f"{facts.os.version_id} on {facts.os.architecture}",
            *_options(wish),
        )
    # The reason that concerns the person's own wish comes first.
    reasons = list(dict.fromkeys(f"{o.title}: {o.problem}" for o in offers))
    # An offer that only lacks a signature, or an older kernel, fits otherwise: tell that.
    must_sign = any("secure boot" in offer.problem for offer in offers)
    last = max((o.last_kernel for o in offers if o.last_kernel), key=kernels.number, default="")
    raise Refused(
        "secure_boot" if must_sign else "kernel_too_new" if last else "nothing_fits",
        f"no driver fits. {'; '.join(reasons[:6])}",
        *(SECURE_BOOT_OPTIONS if must_sign else _older_kernel(facts, last) if last else []),
        *([] if must_sign else _options(wish)),
    )


def _older_kernel(facts: Facts, last: str) -> list[str]:
    there = kernels.older(facts, last)
    if there:
        return [f"reboot into {there[-1]}, which is installed, then plan again"]
    return [f"boot a kernel up to {last} (the distribution's own, not one from backports)"]


SECURE_BOOT_OPTIONS = (
    "enrol the key that DKMS signs with (mokutil --import, then confirm on the console)",
    "turn secure boot off in the firmware",
    "use Ubuntu, whose archive has modules that its own key signs",
)


def offers_for(facts: Facts, wish: Wish, needs: Needs) -> Iterator[Offer]:
    """All offers that match the words of the wish."""
    if wish.source in ("auto", "distribution"):
        yield from _distribution(facts, wish, needs)
    if wish.source in ("auto", "nvidia"):
        yield from _nvidia(facts, wish, needs)


def _distribution(facts: Facts, wish: Wish, needs: Needs) -> Iterator[Offer]:
    row = distribution_row(facts)
    if row is None or facts.os.architecture not in row["architectures"]:
        return
    for rules in row["sets"]:
        for branch in branches_of(rules):
            if wish.branch_number not in (0, branch):
                continue
            for flavour in _flavours(wish, needs, branch):
                if flavour in rules["kernel"]:
                    yield _distribution_offer(facts, wish, needs, row, rules, branch, flavour)


def _distribution_offer(
    facts: Facts,
    wish: Wish,
    needs: Needs,
    row: dict[str, Any],
    rules: dict[str, Any],
    branch: int,
    flavour: Literal["open", "proprietary"],
) -> Offer:
    offer = Offer(source="distribution", branch=branch, flavour=flavour)
    words = {"branch": branch, "release": facts.kernel.release}
    if problem := needs.problem(branch, flavour):
        return offer.model_copy(update={"problem": problem})
    manager = filled(rules.get("fabric_manager", []), **words)
    if needs.nvlsm or (needs.fabric_manager and not manager):
        name = facts.os.id.capitalize()
        return offer.model_copy(update={"problem": f"{name} has no fabric manager for these GPUs"})
    signed = filled(rules.get("signed", {}).get(flavour, []), **words)
    prebuilt = bool(signed) and all(name in facts.candidates for name in signed)
    kernel = signed if prebuilt else filled(rules["kernel"][flavour], **words)
    names = [
        *(filled(rules.get("signed_same_version", []), **words) if prebuilt else kernel),
        *filled(rules["same_version"], **words),
        *(manager if needs.fabric_manager else []),
    ]
    missing = [c for c in row["components"] if c not in facts.apt.components]
    offer = _with_versions(offer, names, facts, wish)
    if not (offer.problem or offer.version or missing) and facts.apt.lists:
        return offer.model_copy(update={"problem": f"apt knows none of {', '.join(names)}"})
    others = newest(kernel if prebuilt else [], facts.candidates)
    others += companions(rules.get("others", []), facts.candidates, branch=branch)
    return _usable(
        offer.model_copy(
            update={
                "packages": [*offer.packages, *others],
                "kernel_packages": kernel,
                "built_here": not prebuilt,
                "adds": [f"the archive's components {', '.join(missing)}"] if missing else [],
            }
        ),
        facts,
    )


def _nvidia(facts: Facts, wish: Wish, needs: Needs) -> Iterator[Offer]:
    row, rules = repository_row(facts), table("nvidia_repository")
    if row is None:
        return
    branch = wish.branch_number or _nvidias_branch(needs, rules)
    for flavour in _flavours(wish, needs, branch):
        offer = Offer(source="nvidia", branch=branch, flavour=flavour)
        sets = [
            s
            for s in rules["sets"]
            if facts.os.id in s["distributions"] and s["from_branch"] <= branch
        ]
        problem = needs.problem(branch, flavour)
        if not problem and (not sets or branch not in rules["branches"]):
            known = ", ".join(map(str, rules["branches"]))
            problem = f"NVIDIA's repository is known to have the branches {known}"
        if problem:
            yield offer.model_copy(update={"problem": problem})
            continue
        kernel = filled(sets[0]["kernel"][flavour], branch=branch)
        names = [*kernel, *filled(sets[0]["same_version"], branch=branch)]
        if needs.fabric_manager:
            managers = [m for m in rules["fabric_manager"] if m["from_branch"] <= branch]
            names += filled(managers[0]["packages"], branch=branch)
        configured = any(f"/{row['path']}" in source.uri for source in facts.apt.nvidia)
        offer = _with_versions(offer, names, facts if configured else _without(facts), wish)
        extra = [*([rules["pin"]] if branch >= rules["pin_from_branch"] else [])]
        extra = [*filled(extra, branch=branch), *(rules["nvlsm"] if needs.nvlsm else [])]
        known_versions = facts.candidates if configured else {}
        yield _usable(
            offer.model_copy(
                update={
                    "packages": [*offer.packages, *newest(extra, known_versions)],
                    "kernel_packages": kernel,
                    "adds": [] if configured else [f"NVIDIA's repository {row['path']}"],
                }
            ),
            facts,
        )


def _nvidias_branch(needs: Needs, rules: dict[str, Any]) -> int:
    default = int(rules["default_branch"])
    if needs.last_branch and default > needs.last_branch:
        return needs.last_branch
    later = [b for b in rules["branches"] if b >= needs.first_branch]
    return default if needs.first_branch <= default else int(min(later, default=default))


def _with_versions(offer: Offer, names: list[str], facts: Facts, wish: Wish) -> Offer:
    found = match(names, facts.candidates, branch=offer.branch, exact=wish.exact)
    return offer.model_copy(
        update={"packages": found.packages, "version": found.version, "problem": found.problem}
    )


def without_prebuilt(facts: Facts) -> Facts | None:
    """Facts under which DKMS builds the module, where apt cannot install a prebuilt one.

    None: that was not the trouble, or the kernel takes none that is built here. A prebuilt module
    lags behind the libraries whenever an archive has published only these.
    """
    failed = [s for s in facts.simulations if s.state == "failed"]
    tried = any(word.startswith(_PREBUILT) for s in failed for word in s.arguments)
    secure = facts.secure_boot
    if not tried or (secure.modules_must_be_signed != "no" and secure.mok != "enrolled"):
        return None
    kept = {n: c for n, c in facts.candidates.items() if not n.startswith(_PREBUILT)}
    return facts.model_copy(update={"candidates": kept})


def _without(facts: Facts) -> Facts:
    return facts.model_copy(update={"candidates": {}})


def _usable(offer: Offer, facts: Facts) -> Offer:
    return _buildable(_signable(offer, facts), facts)


def _buildable(offer: Offer, facts: Facts) -> Offer:
    """Judge a module that DKMS builds by the kernel that runs, unless it was built for it."""
    if offer.problem or not offer.built_here or kernels.built_already(facts, offer.branch):
        return offer
    known = module_limit(offer, facts)
    if not known.passed_by(facts.kernel.release):
        return offer
    what = f"its module is known to build up to Linux {known.last}, and {facts.kernel.release} runs"
    if known.ended:
        return offer.model_copy(update={"problem": what, "last_kernel": known.last})
    return offer.model_copy(update={"remark": f"{offer.title}: {what}; a later version may build"})


def module_limit(offer: Offer, facts: Facts) -> kernels.Limit:
    """Up to which kernel an offer's module builds, as far as anything is known of it."""
    found = [p.version for p in offer.packages if p.name in offer.kernel_packages]
    # Before the source is configured no version is known; the branch is.
    return kernels.limit(facts, offer.source, (found or [""])[0] or f"{offer.branch}.")


def _signable(offer: Offer, facts: Facts) -> Offer:
    secure = facts.secure_boot
    if offer.problem or not offer.built_here or secure.modules_must_be_signed == "no":
        return offer
    if secure.mok == "enrolled":
        return offer
    state = {"on": "is on", "off": "is off", "none": "is absent"}.get(
        secure.state, "cannot be read"
    )
    what = (
        f"secure boot {state} and the kernel takes signed modules only; the key that DKMS "
        f"would sign with is {'not enrolled' if secure.mok == 'missing' else 'of unknown state'}"
    )
    return offer.model_copy(update={"problem": what})


def _flavours(wish: Wish, needs: Needs, branch: int) -> list[Literal["open", "proprietary"]]:
    if wish.flavour != "auto":
        return [wish.flavour]
    if needs.open == "either":
        default = table("open_modules")["default_from_branch"]
        return list(FLAVOURS) if branch >= default else ["proprietary", "open"]
    return ["open"] if needs.open == "required" else ["proprietary"]


def _wanted(wish: Wish) -> str:
    parts = [wish.source if wish.source != "auto" else "", wish.branch or "", wish.flavour]
    words = " ".join(part for part in parts if part and part != "auto")
    return f"a driver ({words})" if words else "a driver"


def _options(wish: Wish) -> list[str]:
    options = []
    if wish.branch:
        options.append("leave driver.branch out, so that the facts decide")
    if wish.flavour != "auto":
        options.append("set driver.flavour: auto")
    if wish.source != "auto":
        options.append("set driver.source: auto")
    return [*options, "use another image: Debian 12 or 13, Ubuntu 22.04 or 24.04"]
