"""CUDA packages that fit a driver branch; never the metapackage that drags a driver in."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from gpuferry.driver.cuda_versions import minimum_branch, published, standing
from gpuferry.driver.facts import Candidate, Facts
from gpuferry.driver.needs import Needs
from gpuferry.driver.packages import (
    Package,
    distribution_row,
    filled,
    newest,
    repository_row,
)
from gpuferry.driver.refusal import Refused
from gpuferry.driver.rules import table
from gpuferry.driver.wish import Wish


class CudaPlan(BaseModel):
    """Packages, what has to be added for them, and remarks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    packages: list[Package] = []
    adds: list[str] = []
    notes: list[str] = []


def plan_cuda(facts: Facts, wish: Wish, needs: Needs | None, branch: int) -> CudaPlan:
    """Packages for every wished version, runtime and toolkit.

    Raises:
        Refused: a version is unknown, too new for the driver or the GPUs, or not to be had.
    """
    packages: list[Package] = []
    adds: list[str] = []
    notes: list[str] = []
    for kind, versions in (("runtime", wish.cuda.runtime), ("toolkit", wish.cuda.toolkit)):
        for version in versions:
            _exists(facts, version)
            notes += _judge(version, needs, branch)
            found, added = _packages(facts, wish, kind, version)
            packages += [p for p in found if p not in packages]
            adds += [a for a in added if a not in adds]
    return CudaPlan(packages=packages, adds=adds, notes=list(dict.fromkeys(notes)))


def newest_native(branch: int) -> str:
    """The newest CUDA version that came with this driver branch or an older one."""
    native = table("cuda")["native"]
    fitting = [version for version, least in native.items() if least <= branch]
    return max(fitting, key=lambda v: tuple(map(int, v.split("."))), default="")


def _exists(facts: Facts, version: str) -> None:
    """Refuse what was never published; what is newer than the rules exists where apt has it.

    A repository that is yet to be added cannot be asked before something is changed.
    """
    known = standing(version)
    if known == "published" or (known == "perhaps" and version in _offers(facts)):
        return
    raise Refused(
        "unknown_cuda",
        f"CUDA {version} is not known to exist; known: {published()}",
        "name one of these in driver.cuda",
        *(["update gpuferry: newer rules may know it"] if known == "perhaps" else []),
    )


def _offers(facts: Facts) -> list[str]:
    """CUDA versions that NVIDIA's repository offers, as far as apt has read it; the newest last."""
    names = (
        re.fullmatch(r"cuda-(?:cudart|toolkit)-(\d+)-(\d+)", name) for name in facts.candidates
    )
    found = {(int(match[1]), int(match[2])) for match in names if match}
    return [f"{major}.{minor}" for major, minor in sorted(found)]


def _judge(version: str, needs: Needs | None, branch: int) -> list[str]:
    major = version.split(".")[0]
    least = minimum_branch(version)
    if branch and branch < least:
        raise Refused(
            "cuda_needs_newer_driver",
            f"CUDA {version} needs driver branch {least} or later, the plan has {branch}",
            f"wish a newer driver: driver.branch: {least}",
            "wish an older CUDA",
        )
    for name in needs.architectures if needs else []:
        row = table("architectures")["architectures"].get(name, {})
        if row.get("last_cuda") and int(major) > int(row["last_cuda"]):
            raise Refused(
                "cuda_dropped_gpu",
                f"CUDA {version} has no code for {name}; {row['last_cuda']}.x is its last",
                f"wish CUDA {row['last_cuda']}.x",
            )
    native = table("cuda")["native"].get(version, 0)
    if branch and native > branch:
        return [
            f"CUDA {version} runs on branch {branch} by minor version compatibility: new PTX is "
            f"not compiled at run time below {native}"
        ]
    return []


def _packages(
    facts: Facts, wish: Wish, kind: str, version: str
) -> tuple[list[Package], Iterable[str]]:
    rules = table("cuda")
    for row in rules["distribution"]:
        here = (row["id"], row["version"]) == (facts.os.id, facts.os.version_id)
        if here and row["cuda"] == version and wish.source != "nvidia":
            components = (distribution_row(facts) or {}).get("components", [])
            read = facts.apt.lists and set(components) <= set(facts.apt.components)
            return _had(row[kind], version, facts, read=read), []
    repository = repository_row(facts)
    if wish.source == "distribution" or repository is None:
        own = [r["cuda"] for r in rules["distribution"] if r["id"] == facts.os.id
               and r["version"] == facts.os.version_id]  # fmt: skip
        raise Refused(
            "cuda_not_offered",
            f"{facts.os.id} {facts.os.version_id} has CUDA {', '.join(own) or '(none)'}, not "
            f"{version}, and NVIDIA's repository may not or cannot be used",
            *(["set driver.source: auto"] if repository else []),
            *([f"wish CUDA {own[0]}"] if own else []),
            "use a container image with that CUDA: only the driver has to fit",
        )
    names = filled(rules["nvidia"][kind], dashed=version.replace(".", "-"))
    configured = any(f"/{repository['path']}" in source.uri for source in facts.apt.nvidia)
    added = [] if configured else [f"NVIDIA's repository {repository['path']}"]
    if not configured:
        return newest(names, {}), added
    # Lists without any CUDA were fetched before the repository was added.
    return _had(names, version, facts, read=bool(_offers(facts))), added


def _had(names: list[str], version: str, facts: Facts, *, read: bool) -> list[Package]:
    """Packages at apt's candidate; `read`: the lists are there, so what they lack cannot come.

    Raises:
        Refused: apt lacks some.
    """
    missing = [name for name in names if not facts.candidates.get(name, Candidate()).candidate]
    if read and missing:
        offers = _offers(facts)
        raise Refused(
            "cuda_not_offered",
            f"apt has no {', '.join(missing)} for CUDA {version}"
            + (f"; NVIDIA's repository offers CUDA {', '.join(offers)}" if offers else ""),
            *([f"wish CUDA {offers[-1]}"] if offers else []),
            "fetch newer package lists on the server: sudo apt-get update",
            "use a container image with that CUDA: only the driver has to fit",
        )
    return newest(names, facts.candidates)
