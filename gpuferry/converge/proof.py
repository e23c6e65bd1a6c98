"""Proofs: why a role need not be played again.

After a successful play each role leaves a proof on the server: a hash of its inputs (tasks,
templates, variables) and one reading of everything it owns (files, package versions, unit states,
effective settings). The next run takes all readings again in one call and plays only the roles
whose proof no longer holds. `meta/owns.yml` of a role says what it owns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from gpuferry.content import tree_digest
from gpuferry.errors import StepFailed
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession
from gpuferry.paths import REPOSITORY

_PROBE = Path(__file__).with_name("probe.py")
_PROBE_SECONDS = 60


class Owns(BaseModel):
    """What a role owns on a server; another reading of any of it breaks the role's proof."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: list[str] = Field(default_factory=list, description="paths or globs, listing included")
    packages: list[str] = Field(default_factory=list)
    units: list[str] = Field(default_factory=list)
    commands: list[list[str]] = Field(default_factory=list, description="their output counts")
    reads: list[str] = Field(default_factory=list, description="other roles' variables it acts on")
    sources: list[str] = Field(
        default_factory=list, description="files and folders of ours that it puts on the server"
    )


class Findings(BaseModel):
    """What the probe found on one server."""

    holds: list[str]
    broken: dict[str, list[str]]


def owns(role: str, root: Path = REPOSITORY) -> Owns:
    """Read a role's `meta/owns.yml`."""
    path = root / "roles" / role / "meta" / "owns.yml"
    return Owns.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})


def inputs_digest(role: str, variables: Mapping[str, Any], root: Path = REPOSITORY) -> str:
    """Hash of everything that decides what a role does: its files and its variables."""
    owned = owns(role, root)
    foreign = owned.reads
    own = {k: v for k, v in variables.items() if k.startswith(f"{role}_") or k in foreign}
    text = json.dumps(own, sort_keys=True) + tree_digest(
        f"roles/{role}", "playbooks", *owned.sources, root=root
    )
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def probe(
    session: SshSession, server: Server, roles: list[str], variables: Mapping[str, Any], mode: str
) -> Findings:
    """Ask the server which proofs hold (`check`), or leave new ones there (`record`).

    Raises:
        StepFailed: the probe did not run; the message says why.
        ServerUnreachable: the server did not answer.
    """
    request = {
        "mode": mode,
        "roles": {
            role: {"inputs": inputs_digest(role, variables), "owns": owns(role).model_dump()}
            for role in roles
        },
    }
    script = f"{_PROBE.read_text(encoding='utf-8')}\nmain({json.dumps(request)!r})\n"
    done = session.run(
        server,
        ["sudo", "-n", "python3", "-I", "-"],
        stdin=script.encode(),
        timeout_seconds=_PROBE_SECONDS,
    )
    if done.returncode != 0:
        raise StepFailed(f"{server.name}: {_why(done.stderr.decode(errors='replace'), server)}")
    # The last line: a login shell may print a greeting first.
    return Findings.model_validate_json(done.stdout.strip().splitlines()[-1])


def _why(stderr: str, server: Server) -> str:
    last = (stderr.strip().splitlines() or ["no reason given"])[-1]
    if "a password is required" in stderr or "may not run sudo" in stderr:
        return server.sudo_advice
    if "sudo: command not found" in stderr:
        return "sudo is not installed. Install it on the server's console."
    if "python3" in last and "not found" in last:
        return "python3 is not installed. Install it: sudo apt-get install python3"
    return f"the probe failed: {last}"
