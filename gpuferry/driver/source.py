"""Which apt source a plan needs on the server: address, key, components. Pure."""

from __future__ import annotations

from typing import Any

from gpuferry.driver.decision import Plan
from gpuferry.driver.facts import Facts
from gpuferry.driver.packages import distribution_row, repository_row
from gpuferry.driver.rules import table

REPOSITORIES = "https://developer.download.nvidia.com/compute/cuda/repos"


def apt_source(facts: Facts, plan: Plan) -> dict[str, Any]:
    """What to add: `nvidia`, NVIDIA's repository with its key; `components` of the archive.

    Both are empty where nothing is to be added. `problem` says why components cannot be added.
    """
    row = repository_row(facts)
    nvidia: dict[str, str] = {}
    if row is not None and any("NVIDIA's repository" in added for added in plan.adds):
        nvidia = {
            "url": f"{REPOSITORIES}/{row['path']}",
            "key": f"{row['key']}.pub",
            "fingerprint": table("nvidia_repository")["keys"][row["key"]],
        }
    wanted = (distribution_row(facts) or {}).get("components", [])
    # apt tells no components before it has lists; then nothing is known to be missing.
    known = set(facts.apt.components)
    missing = [c for c in wanted if c not in known] if plan.packages and known else []
    archive = facts.apt.archive
    problem = ""
    if missing and (not archive.uri or archive.signed_by == "inline" or "***" in archive.uri):
        problem = (
            f"the archive's components {', '.join(missing)} are missing, and its source cannot be "
            "copied (not found, a key inside the file, or a password in its address)"
        )
    return {
        "nvidia": nvidia,
        "components": missing,
        "archive": archive.model_dump(),
        "problem": problem,
    }
