"""CUDA: what the driver can run, and whether the declared versions are there."""

from __future__ import annotations

from gpuferry.checking.expectations import ExpectedCuda
from gpuferry.checking.gpu.judgement import Judgement, judge, not_measured
from gpuferry.checking.gpu.survey import SECONDS, Survey, parsed
from gpuferry.driver.facts import branch_of
from gpuferry.driver.rules import table


def driver(survey: Survey, declared: ExpectedCuda) -> Judgement:
    """The driver runs every declared version.

    Within one major version it runs what was built with a later minor one (CUDA release notes).
    """
    system = survey.nvml.system
    versions = list(dict.fromkeys([*declared.runtime, *declared.toolkit]))
    expected = f"runs CUDA {', '.join(versions)}" if versions else "tells its CUDA version"
    if why := system.why_not("cuda_version") or system.why_not("driver_version"):
        return not_measured(why, expected)
    number, version = int(system.values["cuda_version"]), str(system.values["driver_version"])
    offers = f"{number // 1000}.{number % 1000 // 10}"
    problems = [p for v in versions if (p := _problem(v, branch_of(version), number))]
    told = f"driver {version} offers CUDA {offers}"
    later = [v for v in versions if _number(v) > number]
    evidence = f"by minor version compatibility: {', '.join(later)}" if later else ""
    return judge(not problems, "; ".join([told, *problems]), expected, evidence)


def _problem(version: str, branch: int, offered: int) -> str:
    row = table("cuda")["majors"].get(version.split(".")[0])
    if row and branch < row["minimum_branch"]:
        return f"CUDA {version} needs branch {row['minimum_branch']}"
    if row is None and _number(version) > offered:
        return f"CUDA {version} is later, and no rule knows it"
    return ""


def _number(version: str) -> int:
    major, _, minor = version.partition(".")
    return int(major) * 1000 + int(minor or 0) * 10


def installed(survey: Survey, what: str, declared: list[str]) -> Judgement:
    """Every declared `runtime` or `toolkit` is there and says itself which version it is."""
    expected = f"CUDA {', '.join(declared)}"
    run = survey.cuda
    if run is not None and run.state == "hung":
        return judge(False, f"did not answer within {SECONDS['cuda']} s", expected)
    answer = parsed(run)
    if answer is None:
        said = "the reading process broke off"
        return judge(False, said, expected, f"exit code {run.code if run else 'none'}")
    found: dict[str, str] = answer[what]
    there = {version: path for path, version in found.items() if version in declared}
    missing = [version for version in declared if version not in there]
    others = "; ".join(f"{path}: {said}" for path, said in found.items())
    told = ", ".join(there) or "none"
    if missing:
        told = f"{', '.join(missing)} missing; there: {told}"
    return judge(not missing, told, expected, others or f"nothing that could be a {what}")
