"""Package sets: which names, and which versions of them belong together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from gpuferry.driver.facts import Candidate, Facts, branch_of, upstream
from gpuferry.driver.rules import table


class Package(BaseModel):
    """One package; the version is empty while the source is not configured yet."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    version: str = ""

    @property
    def argument(self) -> str:
        """As apt-get takes it."""
        return f"{self.name}={self.version}" if self.version else self.name


class Match(BaseModel):
    """Versions that belong together, or why there are none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    packages: list[Package] = []
    version: str = ""
    problem: str = ""


def distribution_row(facts: Facts) -> dict[str, Any] | None:
    """The rules for this distribution, or None."""
    return _row(table("distributions")["distributions"], facts)


def branches_of(rules: dict[str, Any]) -> list[int]:
    """The branches of one of a distribution's sets, which names one or several."""
    branch = rules["branch"]
    return list(branch) if isinstance(branch, list) else [branch]


def repository_row(facts: Facts) -> dict[str, Any] | None:
    """NVIDIA's repository for this distribution and architecture, or None."""
    rows = table("nvidia_repository")["repositories"]
    return _row([r for r in rows if r["architecture"] == facts.os.architecture], facts)


def _row(rows: Iterable[dict[str, Any]], facts: Facts) -> dict[str, Any] | None:
    for row in rows:
        versions = row.get("versions", [row.get("version")])
        if row["id"] == facts.os.id and facts.os.version_id in versions:
            return row
    return None


def filled(names: Iterable[str], **words: object) -> list[str]:
    """Names with `{branch}` and the like filled in."""
    return [name.format(**words) for name in names]


def match(
    names: list[str], candidates: Mapping[str, Candidate], *, branch: int, exact: str = ""
) -> Match:
    """The newest version that all packages have in one branch.

    A module and a library of different versions do not work together, and installing "the newest of
    each" is how that comes about: in Debian 12 the open module lags behind the libraries.
    """
    known = {name: candidates.get(name, Candidate()) for name in names}
    if not any(candidate.versions for candidate in known.values()):
        return Match(packages=[Package(name=name) for name in names])
    offered = {
        name: {upstream(v): v for v in reversed(c.versions) if branch_of(v) == branch}
        for name, c in known.items()
    }
    if missing := [name for name, versions in offered.items() if not versions]:
        return Match(problem=f"apt has no {', '.join(missing)} of branch {branch}")
    if pinned := [name for name, c in known.items() if not c.candidate]:
        return Match(problem=f"an apt preference forbids {', '.join(pinned)}")
    common = set.intersection(*(set(versions) for versions in offered.values()))
    if exact:
        common &= {exact}
        if not common:
            return Match(problem=f"apt does not have version {exact} of all of {', '.join(names)}")
    newest = max(common, key=_order) if common else ""
    ahead = sorted(n for n, v in offered.items() if max(v, key=_order) != newest)
    if not newest or (ahead and not exact):
        shown = ", ".join(f"{n} {max(v, key=_order)}" for n, v in offered.items())
        return Match(problem=f"module and libraries have different versions: {shown}")
    packages = [Package(name=name, version=offered[name][newest]) for name in names]
    return Match(packages=packages, version=newest)


def newest(names: Iterable[str], candidates: Mapping[str, Candidate]) -> list[Package]:
    """Packages that need no common version, at apt's candidate."""
    return [Package(name=n, version=candidates.get(n, Candidate()).candidate) for n in names]


def companions(
    names: Iterable[str], candidates: Mapping[str, Candidate], *, branch: int
) -> list[Package]:
    """Packages whose version may differ, of the driver's branch where apt has one, else the newest.

    With NVIDIA's repository beside the distribution's, apt's candidate is of another driver.
    """
    found = []
    for package in newest(names, candidates):
        versions = candidates.get(package.name, Candidate()).versions
        same = [v for v in versions if branch_of(v) == branch]
        best = max(same, key=lambda v: _order(upstream(v)), default=package.version)
        found.append(package.model_copy(update={"version": best}))
    return found


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))
