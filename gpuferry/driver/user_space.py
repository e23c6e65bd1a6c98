"""Plans without a kernel module: containers share their host's, simulated GPUs have none."""

from __future__ import annotations

from gpuferry.driver.cuda import plan_cuda
from gpuferry.driver.decision import Plan
from gpuferry.driver.facts import Candidate, Facts, branch_of, upstream
from gpuferry.driver.needs import Needs
from gpuferry.driver.packages import Package, branches_of, distribution_row, match
from gpuferry.driver.refusal import Refused
from gpuferry.driver.wish import Wish


def simulated_plan(facts: Facts, wish: Wish) -> Plan:
    """The distribution's nvidia-smi and what it needs; the simulated library is found first."""
    smi, library = (_present_or_candidate(facts, name) for name in ("nvidia-smi", "libnvidia-ml1"))
    cuda = plan_cuda(facts, wish, None, branch_of(smi))
    row = distribution_row(facts)
    missing = [c for c in (row or {}).get("components", []) if c not in facts.apt.components]
    return Plan(
        action="user_space",
        source="simulated",
        branch=branch_of(smi),
        version=upstream(smi),
        packages=[
            Package(name="nvidia-smi", version=smi),
            Package(name="libnvidia-ml1", version=library),
            *cuda.packages,
        ],
        cuda=cuda.packages,
        adds=[
            *([f"the archive's components {', '.join(missing)}"] if missing else []),
            *cuda.adds,
        ],
        reasons=[f"{len(facts.gpus)} simulated GPU(s): no module, libraries and tools only"],
        notes=[*_unfollowed(wish, smi), *cuda.notes],
    )


def _unfollowed(wish: Wish, version: str) -> list[str]:
    """What a real GPU's driver would be chosen by; a rehearsal must not look as if it had been."""
    asked = [f"branch {wish.branch}"] if wish.branch and not _follows(wish, version) else []
    asked += [f"flavour {wish.flavour}"] if wish.flavour != "auto" else []
    asked += ["source nvidia"] if wish.source == "nvidia" else []
    if not asked:
        return []
    return [
        f"not followed on simulated GPUs: {', '.join(asked)}; they take the distribution's tools, "
        f"{upstream(version) or 'in its version'}"
    ]


def _follows(wish: Wish, version: str) -> bool:
    return wish.branch_number == branch_of(version) and wish.exact in ("", upstream(version))


def _present_or_candidate(facts: Facts, name: str) -> str:
    """What is installed stays: a newer one comes on purpose, with `ferry driver upgrade`."""
    if name in facts.packages:
        return facts.packages[name].version
    return facts.candidates.get(name, Candidate()).candidate


def container_plan(facts: Facts, wish: Wish, needs: Needs) -> Plan:
    """Libraries in exactly the version of the host's module.

    Raises:
        Refused: the host has no driver, or apt does not have its version.
    """
    version = facts.module.version
    if not version:
        raise Refused(
            "host_has_no_driver",
            "this server is a container, and the kernel it shares has no NVIDIA driver loaded",
            "install the driver on the host",
        )
    if wish.branch_number not in (0, branch_of(version)):
        raise Refused(
            "host_decides",
            f"branch {wish.branch_number} is wanted, but the host's module is {version}: a "
            "container cannot have another one",
            "leave driver.branch out",
            "change the driver on the host",
        )
    packages: list[Package] = []
    if facts.library.version != version:
        packages = _libraries(facts, version)
    cuda = plan_cuda(facts, wish, needs, branch_of(version))
    return Plan(
        action="user_space",
        source="host",
        branch=branch_of(version),
        version=version,
        flavour=facts.module.flavour,
        packages=[*packages, *cuda.packages],
        cuda=cuda.packages,
        adds=cuda.adds,
        reasons=[f"a container on a host with module {version}: only libraries, in that version"],
        notes=cuda.notes,
    )


def _libraries(facts: Facts, version: str) -> list[Package]:
    row = distribution_row(facts)
    branch = branch_of(version)
    for rules in (row or {}).get("sets", []):
        if branch in branches_of(rules):
            names = [name.format(branch=branch) for name in rules["same_version"]]
            found = match(names, facts.candidates, branch=branch, exact=version)
            if found.version:
                return found.packages
    raise Refused(
        "host_version_not_offered",
        f"the host's module is {version}, and apt has no libraries of exactly that version",
        "let the host's container toolkit mount its own libraries into this container",
        "configure a source that has them",
    )
