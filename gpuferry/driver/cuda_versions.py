"""Which CUDA versions there are, and what each needs at least; known without any server."""

from __future__ import annotations

from typing import Any, Literal

from gpuferry.driver.rules import table


def standing(version: str) -> Literal["published", "perhaps", "never"]:
    """What the rules know of a version such as `12.4`; `perhaps`: later than the newest known."""
    major, _, minor = version.partition(".")
    row = _majors().get(major)
    if row is None or not minor.isdigit():
        return "never"
    if int(minor) in row["minors"]:
        return "published"
    later = int(minor) > max(row["minors"]) and not row["closed"]
    return "perhaps" if later else "never"


def published() -> str:
    """All published versions for people: `11.0 to 11.8, 12.0 to 12.6, 12.8, 12.9, …`."""
    said: list[str] = []
    for major, row in _majors().items():
        runs: list[list[int]] = []
        for minor in row["minors"]:
            if runs and runs[-1][-1] == minor - 1:
                runs[-1].append(minor)
            else:
                runs.append([minor])
        for run in runs:
            ends = [f"{major}.{minor}" for minor in run]
            said += [f"{ends[0]} to {ends[-1]}"] if len(ends) > 2 else ends
    return ", ".join(said)


def minimum_branch(version: str) -> int:
    """The oldest driver branch that runs a version, by minor version compatibility."""
    return int(_majors()[version.split(".")[0]]["minimum_branch"])


def _majors() -> dict[str, Any]:
    return dict(table("cuda")["majors"])
