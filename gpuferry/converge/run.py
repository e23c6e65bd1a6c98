"""Converge servers: the same code path for `pulumi up`, `ferry converge`, resize and rebuild."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from gpuferry.converge.play import PlayResult, run_playbook
from gpuferry.converge.proof import Findings, probe
from gpuferry.errors import StepFailed
from gpuferry.inventory import Entry
from gpuferry.nodes.session import SshSession, wait_for_ssh
from gpuferry.nodes.ssh_failure import SshFailure

Say = Callable[[str], None]
T = TypeVar("T")
_PARALLEL = 16


@dataclass(frozen=True)
class Converged:
    """What converging did on one server."""

    server: str
    seconds: float
    changed: int = 0
    played: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    reasons: dict[str, list[str]] = field(default_factory=dict)
    changed_tasks: list[str] = field(default_factory=list)
    disturbs: list[str] = field(default_factory=list)


def converge(
    entries: Sequence[Entry],
    *,
    playbook: str = "site.yml",
    full: bool = False,
    check_only: bool = False,
    disturb: bool = False,
    say: Say,
) -> list[Converged]:
    """Bring servers to their declared state; roles whose proof holds are not played.

    `full` plays all roles whatever the proofs say. `check_only` changes nothing and reports what
    would change, and what that would interrupt. `disturb` lets the run interrupt GPU work; without
    it, and without the stack file's leave, a change that would do so is refused.

    Raises:
        StepFailed: a server could not be brought to its state; the message names it and the task.
        ServerUnreachable: a server did not answer by the deadline.
    """
    started = time.monotonic()
    by_name = {entry.server.name: entry for entry in entries}
    with SshSession([entry.server for entry in entries]) as session:
        findings = _each(entries, lambda entry: _probe_first(session, entry, say))
        todo = {
            name: _roles(entry)
            if full
            else [role for role in _roles(entry) if role in findings[name].broken]
            for name, entry in by_name.items()
        }
        # Other playbooks than site.yml do more than play roles.
        playing = [e for e in entries if todo[e.server.name] or playbook != "site.yml"]
        result = PlayResult()
        if playing:
            result = run_playbook(
                playbook,
                [entry.server for entry in playing],
                {
                    e.server.name: {
                        **e.variables,
                        "ferry_roles": todo[e.server.name],
                        **({"ferry_disturb": True} if disturb else {}),
                    }
                    for e in playing
                },
                session,
                check_only=check_only,
                say=say,
            )
            if not check_only:
                _each(playing, lambda entry: _record(session, entry))
    seconds = time.monotonic() - started
    return [
        Converged(
            server=name,
            seconds=round(seconds, 2),
            changed=result.changed(name),
            played=todo[name],
            skipped=[role for role in _roles(entry) if role not in todo[name]],
            reasons=findings[name].broken,
            changed_tasks=result.changed_tasks.get(name, []),
            disturbs=result.disturbs.get(name, []),
        )
        for name, entry in by_name.items()
    ]


def _roles(entry: Entry) -> list[str]:
    return list(entry.variables["ferry_roles"])


def _probe_first(session: SshSession, entry: Entry, say: Say) -> Findings:
    roles = _roles(entry)
    try:
        return probe(session, entry.server, roles, entry.variables, "check")
    except SshFailure as failure:
        if not failure.retryable:
            raise
    wait_for_ssh(entry.server, entry.ssh_wait_seconds, on_progress=say)
    return probe(session, entry.server, roles, entry.variables, "check")


def _record(session: SshSession, entry: Entry) -> None:
    findings = probe(session, entry.server, _roles(entry), entry.variables, "record")
    if findings.broken:
        raise StepFailed(f"{entry.server.name}: the proofs could not be recorded.")


def _each(entries: Sequence[Entry], work: Callable[[Entry], T]) -> dict[str, T]:
    """Do the work for all servers side by side; the first error is raised after all ended."""
    with ThreadPoolExecutor(max_workers=min(_PARALLEL, max(1, len(entries)))) as pool:
        futures = {entry.server.name: pool.submit(work, entry) for entry in entries}
    return {name: future.result() for name, future in futures.items()}
