"""nodes, ssh, converge, check: everything that works on deployed servers."""

from __future__ import annotations

import dataclasses
import difflib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from gpuferry import desired, inventory
from gpuferry.checking import render
from gpuferry.engine import find
from gpuferry.engine.project import Project
from gpuferry.engine.run import Pulumi
from gpuferry.errors import DriftFound, FerryError, PrerequisiteMissing, SpecError
from gpuferry.inventory import Entry
from gpuferry.nodes.session import SshSession
from gpuferry.operate.console import print_json, print_table, say_on_stderr, stdout_console
from gpuferry.operate.drafts import write_whole
from gpuferry.prepare import packages
from gpuferry.verdict import Verdict, to_junit, worst_exit_code

# The concerns of `ferry check --security`; `security` is only looked at when it is asked for.
_SECURITY = (
    "security", "ssh_hardening", "firewall", "updates", "secrets", "encryption", "base.users",
)  # fmt: skip


def open_deployed(project: Project) -> Pulumi:
    """The engine on a stack that is there.

    Raises:
        PrerequisiteMissing: it is not deployed.
    """
    pulumi = Pulumi(find.ensure(say_on_stderr), project)
    if not pulumi.exists():
        raise PrerequisiteMissing(
            f"Stack {project.stack} is not deployed. Run: ./ferry up --stack {project.stack}"
        )
    return pulumi


def select(pulumi: Pulumi, names: list[str]) -> list[Entry]:
    """The deployed servers with these names; all of them when none is named.

    Raises:
        PrerequisiteMissing: nothing is deployed.
        SpecError: no server has that name.
    """
    stack = pulumi.project.stack
    raw = pulumi.records("-inventory") if pulumi.exists() else None
    if not raw:
        raise PrerequisiteMissing(
            f"Stack {stack} has no servers yet. Run: ./ferry up --stack {stack}"
        )
    known = {entry["server"]["name"]: entry for entry in raw}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise SpecError(
                f"Stack {stack} has no server {name!r}; it has: {', '.join(known)}.{hint}"
            )
    return [inventory.parse(known[name]) for name in dict.fromkeys(names or known)]


def deployed(project: Project, names: list[str]) -> list[Entry]:
    """The deployed servers with these names; all of them when none is named."""
    return select(Pulumi(find.ensure(say_on_stderr), project), names)


def _say_what_is_not_deployed(project: Project, entries: list[Entry]) -> None:
    """Converging and checking know what the last `up` deployed, not later edits of the file."""
    try:
        spec = project.spec()
    except FerryError:
        return
    declared = {s.name: desired.declared_digest(spec, s) for s in spec.servers}
    names = [e.server.name for e in entries if declared.get(e.server.name) != e.declared]
    if names:
        say_on_stderr(
            f"note: {project.stack_file.name} differs from what is deployed ({', '.join(names)}); "
            f"run ./ferry up --stack {project.stack} to apply it"
        )


def show(project: Project, *, as_json: bool) -> None:
    """List servers."""
    entries = deployed(project, [])
    rows = [_row(project, entry) for entry in entries]
    if as_json:
        print_json({"ok": True, "stack": project.stack, "servers": rows})
        return
    columns = ["name", "state", "address", "port", "user", "kind", "image", "cpus", "memory_gib"]
    columns += ["workload", "labels"]
    print_table("", columns, [[_cell(row[c]) for c in columns] for row in rows])


def on_this_stack(verdict: Verdict, project: Project) -> Verdict:
    """The verdict with the stack in the commands that it tells."""
    texts = {"next_step": verdict.next_step, "evidence": verdict.evidence}
    return verdict.model_copy(update={k: project.on_stack(v) for k, v in texts.items()})


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={text}" for key, text in value.items())
    return str(value)


def _row(project: Project, entry: Entry) -> dict[str, object]:
    server, facts = entry.server, entry.server.provider_facts
    return {
        "name": server.name,
        "state": _state(project, entry),
        "address": server.address,
        "port": server.port,
        "user": server.user,
        "host_key": server.host_key,
        "workload": entry.workload,
        "labels": entry.labels,
        **{key: facts.get(key, "") for key in ("kind", "image", "cpus", "memory_gib")},
    }


def _state(project: Project, entry: Entry) -> str:
    if entry.server.provider_facts.get("provider") != "local":
        return "rented"
    from gpuferry.nodes.local import machine

    try:
        return machine.states(project.local_name).get(entry.server.name, "gone")
    except PrerequisiteMissing:
        return "stopped (no Docker engine)"


def ssh(project: Project, name: str, command: list[str]) -> int:
    """Open a shell, or run a command; returns its exit code."""
    (entry,) = deployed(project, [name])
    with SshSession([entry.server]) as session:
        # A key in a file that only this user can read, gone when the session ends.
        argv = ["ssh", "-F", str(session.config_path), entry.server.name]
        if command:
            argv += ["-T", "--", *command]
        elif sys.stdin.isatty():
            argv.insert(1, "-t")
        # Ctrl-C belongs to the remote side.
        # A handler, since an ignored signal would stay ignored in ssh itself.
        before = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            code = subprocess.run(argv, check=False, env=dict(os.environ)).returncode
        finally:
            signal.signal(signal.SIGINT, before)
        if code == 255:
            # ssh's own failure gets a sentence; the same exit code of the command does not.
            session.run(entry.server, "true", timeout_seconds=20)
        return code


def converge(
    project: Project,
    names: list[str],
    *,
    full: bool,
    check_only: bool,
    disturb: bool,
    as_json: bool,
) -> None:
    """Converge servers.

    Raises:
        DriftFound: with `check_only`, when something would change.
    """
    from gpuferry.converge.run import converge as run

    entries = deployed(project, names)
    _say_what_is_not_deployed(project, entries)
    results = run(
        entries,
        full=full or check_only,
        check_only=check_only,
        disturb=disturb,
        say=say_on_stderr,
    )
    drifted = [r for r in results if r.changed]
    if as_json:
        print_json(
            {
                "ok": not (check_only and drifted),
                "servers": [dataclasses.asdict(result) for result in results],
            }
        )
    else:
        rows = [
            [r.server, str(r.changed), ", ".join(r.played) or "none", f"{r.seconds:.1f} s"]
            for r in results
        ]
        print_table("", ["server", "changed", "roles played", "time"], rows)
        for result in results:
            for text in result.disturbs:
                print(f"{result.server} would be interrupted: {text}")
    if check_only and drifted:
        if as_json:
            sys.exit(DriftFound.exit_code)
        what = "; ".join(f"{r.server} ({', '.join(r.changed_tasks)})" for r in drifted)
        raise DriftFound(
            f"drift: these would be changed: {what}. Nothing was touched; mend it with "
            f"./ferry converge --stack {project.stack}"
        )


def _get_testers() -> None:
    """nmap and Lynis on this machine; without them the page says what was not measured."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        try:
            packages.install_missing(say_on_stderr, packages.TESTERS)
        except PrerequisiteMissing as reason:
            say_on_stderr(f"note: {reason}")
    say_on_stderr("scanning all ports and auditing the servers (about a minute)")


def check(
    project: Project,
    names: list[str],
    *,
    only: list[str],
    security: bool,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Verify servers; exits 1 when a check fails.

    `security` selects the concerns of the security page, and installs here what measures them.
    """
    from gpuferry.checking.known import known_checks, refuse_unknown
    from gpuferry.checking.run import CHECKS_DIRECTORY
    from gpuferry.verify import verify

    refuse_unknown(only, known_checks(CHECKS_DIRECTORY))
    if junit is not None and not junit.resolve().parent.is_dir():
        raise SpecError(f"--junit {junit}: there is no folder {junit.resolve().parent}.")
    entries = deployed(project, names)
    _say_what_is_not_deployed(project, entries)
    if security:
        only = [*only, *_SECURITY]
    if any(name.split(".")[0] == "security" for name in only):
        _get_testers()
    verdicts = [on_this_stack(v, project) for v in verify(entries, select=only or None)]
    if junit is not None:
        write_whole(junit, to_junit(verdicts))
    if as_json:
        print(render.as_json(verdicts))
    else:
        stdout_console().print(render.as_table(verdicts, explain=security))
    sys.exit(worst_exit_code(verdicts))
