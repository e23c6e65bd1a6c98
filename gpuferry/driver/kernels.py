"""Up to which kernel the modules of a branch are known to build, where DKMS builds them. Pure."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict

from gpuferry.driver.facts import Facts, branch_of
from gpuferry.driver.packages import Package, branches_of, distribution_row
from gpuferry.driver.refusal import Refused
from gpuferry.driver.rules import table


class Limit(BaseModel):
    """`last` as `6.15`; empty where no end is known. `ended`: no later version will build more."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    last: str = ""
    ended: bool = False

    def passed_by(self, kernel: str) -> bool:
        """Whether a kernel (release or package version) is newer than the last known one."""
        return bool(self.last) and number(kernel) > number(self.last)


def limit(facts: Facts, source: str, version: str) -> Limit:
    """What the rules know of a module's package; a version such as `580.` is any of the branch."""
    maker = facts.os.id if source == "distribution" else source
    found = Limit()
    for row in table("kernels")["last_kernels"]:
        mine = (row["offered_by"], row["branch"]) == (maker, branch_of(version))
        if mine and _order(row["since"]) <= _order(version):
            found = Limit(last=row["last"], ended=row["ended"])
    return found


def of_installed(facts: Facts, package: Package) -> Limit:
    """The same for a package whose source is not known: Debian has only some branches itself."""
    sets = (distribution_row(facts) or {"sets": []})["sets"]
    mine = any(branch_of(package.version) in branches_of(rules) for rules in sets)
    return limit(facts, "distribution" if mine else "nvidia", package.version)


def built_already(facts: Facts, branch: int) -> bool:
    """Whether a module of this branch is there for the running kernel: then it does build."""
    return branch_of(facts.module.disk_version) == branch


def older(facts: Facts, last: str) -> list[str]:
    """Installed kernels that a module of that limit builds for; the newest last."""
    rest = [r for r in facts.kernel.installed if r != facts.kernel.release]
    return sorted((r for r in rest if number(r) <= number(last)), key=_order)


def refuse_beyond(image: Package, known: Limit, what: str) -> None:
    """Refuse a kernel that would come, and that the module is known not to follow.

    Raises:
        Refused: it is newer.
    """
    if known.ended and known.passed_by(image.version):
        raise Refused(
            "kernel_too_new",
            f"{image.name} {image.version} would come, and {what} is known to build up to Linux "
            f"{known.last}",
            "leave kernel_change out of driver.allow",
            "wish a newer branch that builds for it: driver.branch",
        )


def number(kernel: str) -> tuple[int, int]:
    """Major and minor of a release or package version; zeros where it has none."""
    match = re.match(r"(?:\d+:)?(\d+)\.(\d+)", kernel)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _order(version: str) -> list[int]:
    """Numbers up to a revision's first sign: what `~bpo13+1` and `+deb12u1` add decides nothing."""
    return [int(part) for part in re.findall(r"\d+", re.split(r"[~+]", version)[0])]
