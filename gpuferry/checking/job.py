"""What the parent tells the process that checks one server, and what that process answers."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from gpuferry.checking.expectations import Expectations
from gpuferry.verdict import Verdict


class Target(BaseModel):
    """The server as its checks see it: everything but the private key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    address: str
    port: int
    user: str
    host_key: str


class Job(BaseModel):
    """One server's checks. It holds the object stores' keys, so it travels over stdin only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: Target
    expectations: Expectations
    checks_directory: Path
    ssh_config: Path | None
    key_path: Path | None
    select: list[str] | None = None


class Line(BaseModel):
    """One line of the answer: a verdict, or the word that all checks have ended."""

    verdict: Verdict | None = None
    finished: bool = False
