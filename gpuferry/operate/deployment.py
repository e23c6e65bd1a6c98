"""up, preview, down, rebuild: everything that runs the engine."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from dataclasses import dataclass

from gpuferry import inventory
from gpuferry.checking.render import as_table
from gpuferry.engine import config, events, find
from gpuferry.engine.project import Project
from gpuferry.engine.run import Pulumi
from gpuferry.errors import FerryError, SpecError, StepFailed
from gpuferry.logs.place import IDENTITY
from gpuferry.operate.checked_spec import checked_spec
from gpuferry.operate.console import confirm, print_json, say_on_stderr, stdout_console
from gpuferry.operate.display import Progress
from gpuferry.prepare import docker_engine, prerequisites
from gpuferry.rules import HOLDING_DATA
from gpuferry.spec import Spec
from gpuferry.verdict import Verdict


def open_stack(project: Project, provider: str, take_over: bool = False) -> Pulumi:
    """Prepare this machine for the stack's provider and open the stack, its lock free."""
    prerequisites.prepare(provider, say_on_stderr)
    pulumi = Pulumi(find.ensure(say_on_stderr), project)
    for sentence in pulumi.release_stale_lock(take_over):
        say_on_stderr(sentence)
    return pulumi


def up(
    project: Project,
    *,
    as_json: bool,
    take_over: bool,
    yes: bool = False,
    discard_retained: bool = False,
) -> None:
    """Deploy the stack; prints verdicts and where to go next.

    Asks first where servers or buckets that are no longer declared would go, with their data.
    """
    spec = checked_spec(project)
    started = time.monotonic()
    _allow_discarding(discard_retained)
    pulumi = open_stack(project, spec.provider, take_over)
    with Progress() as progress:
        progress.say(
            f"deploying stack {project.stack}: {_count(len(spec.servers), 'server')}, "
            f"{_count(len(spec.object_stores), 'object store')}, provider {spec.provider}"
        )
        pulumi.ensure_stack()
        known = _known(pulumi)
        confirm_losses(project, known, spec, yes)
        if not spec.policy.protect_data:
            _unprotect(pulumi, known)
        summary = _deploy(pulumi, known, progress, replace=_lost(pulumi, known, spec, progress))
    _report(project, pulumi, summary, time.monotonic() - started, as_json=as_json)


@dataclass(frozen=True)
class Known:
    """What the state holds before a deployment, read once: each reading starts the engine."""

    urns: dict[str, str]
    pending: bool
    protected: frozenset[str] = frozenset()
    """Names of those that Pulumi itself refuses to remove."""


def _known(pulumi: Pulumi) -> Known:
    deployment = pulumi.state().get("deployment") or {}
    commands = {
        r["urn"].rsplit("::", 1)[-1]: r
        for r in deployment.get("resources") or []
        if "command:" in r.get("type", "")
    }
    return Known(
        urns={name: resource["urn"] for name, resource in commands.items()},
        pending=bool(deployment.get("pending_operations")),
        protected=frozenset(name for name, r in commands.items() if r.get("protect")),
    )


def _unprotect(pulumi: Pulumi, known: Known) -> None:
    """What the stack file no longer protects was protected by an earlier deployment."""
    pulumi.unprotect(known.urns[name] for name in sorted(known.protected))


def _deploy(
    pulumi: Pulumi, known: Known, progress: Progress, *, replace: list[str]
) -> events.Summary:
    if known.pending:
        progress.say("an earlier run was interrupted; continuing from where it stopped")
        pulumi.forget_pending(lambda event: None)
    return pulumi.up(progress.on_event, replace=replace)


def _allow_discarding(discard_retained: bool) -> None:
    """Hand the word on to the step that removes a bucket, through the engine's environment."""
    if discard_retained:
        from gpuferry.nodes.local import bucket

        os.environ[bucket.DISCARD_RETAINED] = "1"


def confirm_losses(project: Project, known: Known, spec: Spec, yes: bool) -> None:
    """Ask before data goes with what is no longer declared.

    Raises:
        SpecError: the stack's policy protects it.
        PrerequisiteMissing: nobody can answer, or the answer is no.
    """
    kept = {f"{s.name}-disk" for s in spec.servers} | {
        f"{b.name}-bucket" for b in spec.object_stores
    }
    kept |= {f"{b.name}-data-key" for b in spec.object_stores}
    kept |= {f"{s.name}-{v.name}-volume-key" for s in spec.servers for v in s.encrypted_volumes}
    kept |= {IDENTITY} if spec.logs and spec.logs.encryption else set()
    lost = sorted(n for n in known.urns if n.endswith(HOLDING_DATA) and n not in kept)
    if lost and spec.policy.protect_data:
        raise SpecError(
            f"policy.protect_data keeps {', '.join(lost)}: set it to false in "
            f"{project.stack_file.name} first, if they and their data shall go."
        )
    if lost:
        names = ", ".join(
            name.replace(IDENTITY, "the key that opens encrypted logs")
            .replace("-disk", "'s disk")
            .replace("-bucket", ", the bucket")
            .replace("-volume-key", ", the key of an encrypted volume")
            .replace("-data-key", ", the key of its sealed data")
            for name in lost
        )
        confirm(
            f"{names}: no longer declared in {project.stack_file.name}, so all data on it "
            "will be removed.",
            yes,
        )


def _lost(pulumi: Pulumi, known: Known, spec: Spec, progress: Progress) -> list[str]:
    """Start local machines that are stopped; return the URNs of what must be made again."""
    if spec.provider != "local":
        return []
    from gpuferry.nodes.local import survey

    lost = survey.revive(pulumi.project.local_name, set(known.urns), progress.say)
    return [known.urns[name] for name in lost]


def _report(
    project: Project, pulumi: Pulumi, summary: events.Summary, seconds: float, *, as_json: bool
) -> None:
    outputs = pulumi.outputs()
    verdicts = [Verdict.model_validate(v) for group in outputs["verdicts"] for v in group]
    if as_json:
        print_json(
            {
                "ok": True,
                "stack": project.stack,
                "changes": summary.changes,
                "seconds": round(seconds, 1),
                "servers": outputs["servers"],
                "object_stores": outputs["object_stores"],
                "verdicts": [v.model_dump() for v in verdicts],
            }
        )
        return
    console = stdout_console()
    if summary.changed:
        console.print(as_table(verdicts))
    changes = ", ".join(f"{count} {kind}" for kind, count in sorted(summary.changes.items()))
    total = sum(summary.changes.values())
    changes = changes if summary.changed else f"nothing changed ({total} resources)"
    console.print(f"\nStack {project.stack} is up after {seconds:.0f} s: {changes}.")
    first = next(iter(outputs["servers"]), "NAME")
    option = "" if project.stack == "local" else f" --stack {project.stack}"
    console.print(f"Next: ./ferry nodes{option} · ./ferry ssh{option} {first} · "
                  f"./ferry check{option}")  # fmt: skip


def preview(project: Project, *, as_json: bool) -> None:
    """Say what `up` would change."""
    checked_spec(project)
    planned: list[dict[str, str]] = []
    advice: list[str] = []

    def watch(event: events.Event) -> None:
        progress.on_event(event)
        if isinstance(event, events.Said) and event.name.startswith(events.POLICY):
            advice.append(f"{event.name}: {event.text}")
        if isinstance(event, events.Finished) and event.name and event.operation != "same":
            planned.append({"resource": event.name, "operation": event.operation})

    with tempfile.TemporaryDirectory(prefix="gpuferry-preview-") as nowhere:
        engine = find.ensure(say_on_stderr)
        pulumi = Pulumi(engine, project)
        exists = pulumi.exists()
        if not exists:
            # Against a state that is thrown away, since nothing may be touched.
            pulumi = Pulumi(engine, project, backend=f"file://{nowhere}")
            pulumi.ensure_stack()
        with Progress(quiet=as_json, planned=True) as progress:
            summary = pulumi.preview(watch)
        if not exists:
            config.forget(project)
    if as_json:
        print_json(
            {
                "ok": True,
                "stack": project.stack,
                "exists": exists,
                "changes": summary.changes,
                "planned": planned,
                "policy": advice,
            }
        )
    else:
        changes = ", ".join(f"{n} {kind}" for kind, n in sorted(summary.changes.items()))
        print(f"`up` would do: {changes or 'nothing'}. Nothing was touched.")
        if gone := [p["resource"] for p in planned if _holds_data(p)]:
            print(f"Data would be lost with: {', '.join(gone)}. `up` asks first, or needs --yes.")


def _holds_data(planned: dict[str, str]) -> bool:
    return planned["operation"] == "delete" and planned["resource"].endswith(HOLDING_DATA)


def down(
    project: Project, *, yes: bool, discard_retained: bool, as_json: bool, take_over: bool
) -> None:
    """Remove everything the stack made."""
    _refuse_where_protected(project)
    provider = _provider(project)
    _allow_discarding(discard_retained)
    pulumi = open_stack(project, provider, take_over)
    if not pulumi.exists():
        _confirm_leftovers(project, provider, yes)
        _swept(
            project, provider, as_json, f"Stack {project.stack} does not exist; nothing to remove."
        )
        return
    servers = ", ".join(r["server"]["name"] for r in pulumi.records("-inventory")) or "no servers"
    confirm(f"Stack {project.stack} ({servers}) and all its data will be removed.", yes)
    with Progress(quiet=as_json) as progress:
        known = _known(pulumi)
        if known.pending:
            pulumi.forget_pending(lambda event: None)
        _unprotect(pulumi, known)
        if provider == "local":
            from gpuferry.nodes.local import survey

            with contextlib.suppress(FerryError):  # its buckets then say what is wrong
                survey.revive_object_store(project.local_name, progress.say)
        summary = pulumi.destroy(progress.on_event)
    pulumi.remove_stack()
    removed = summary.changes.get("delete", 0)
    sentence = f"Stack {project.stack} is gone: {removed} resources removed."
    _swept(project, provider, as_json, sentence)


def _refuse_where_protected(project: Project) -> None:
    with contextlib.suppress(SpecError):  # a broken stack file must not keep `down` from working
        if not project.spec().policy.protect_data:
            return
        raise StepFailed(
            f"policy.protect_data keeps stack {project.stack}: set it to false in "
            f"{project.stack_file.name} first, if all its data shall go."
        )


def _confirm_leftovers(project: Project, provider: str, yes: bool) -> None:
    """Things of a stack that the state does not know may be somebody's data."""
    if provider != "local":
        return
    from gpuferry.nodes.local import survey

    found = survey.leftovers(project.local_name)
    if found:
        confirm(
            f"The state does not know stack {project.stack}, but these carry its name: "
            f"{', '.join(found)}. They and their data will be removed.",
            yes,
        )


def _provider(project: Project) -> str:
    """The stack's provider; a stack file that is broken must not keep `down` from working."""
    try:
        return project.spec().provider
    except SpecError as error:
        say_on_stderr(f"{error} Going on as for provider local.")
        return "local"


def _swept(project: Project, provider: str, as_json: bool, sentence: str) -> None:
    """Remove what a killed run left outside the state, and say that all is gone."""
    left: list[str] = []
    if provider == "local":
        from gpuferry.nodes.local import survey

        left = survey.sweep(project.local_name)
        docker_engine.stop_own_if_idle()
    if as_json:
        print_json({"ok": True, "stack": project.stack, "message": sentence, "swept": left})
        return
    print(sentence)
    if left:
        print(f"Also removed, left by an interrupted run: {', '.join(left)}.")


def rebuild(
    project: Project, name: str, *, as_json: bool, take_over: bool, yes: bool = False
) -> None:
    """Replace one server's system; address, host key and data disk stay."""
    from gpuferry.operate.servers import select

    spec = checked_spec(project)
    if spec.provider == "ssh":
        raise SpecError(
            f"{name} is a rented server: reinstall it with its provider, put the new host key into "
            f"{project.stack_file.name}, then run ./ferry up --stack {project.stack}."
        )
    started = time.monotonic()
    pulumi = open_stack(project, spec.provider, take_over)
    (entry,) = select(pulumi, [name])
    known = _known(pulumi)
    confirm_losses(project, known, spec, yes)
    say_on_stderr(f"{name} gets a fresh system; what is outside its data disk is lost")
    _prepare_old_system(entry)
    with Progress(quiet=as_json) as progress:
        lost = _lost(pulumi, known, spec, progress)
        urn = known.urns[f"{name}-machine"]
        summary = _deploy(pulumi, known, progress, replace=sorted({*lost, urn}))
    _report(project, pulumi, summary, time.monotonic() - started, as_json=as_json)


def _prepare_old_system(entry: inventory.Entry) -> None:
    """Stop what runs on the old system in good order; a dead server is simply replaced."""
    from gpuferry.converge.play import run_playbook
    from gpuferry.errors import ServerUnreachable
    from gpuferry.nodes.session import SshSession

    server = entry.server
    try:
        with SshSession([server]) as session:
            session.run(server, "true", timeout_seconds=15)
            run_playbook(
                "rebuild.yml", [server], {server.name: entry.variables}, session, say=say_on_stderr
            )
    except ServerUnreachable as error:
        print(f"the old system of {server.name} is not reachable; replacing it ({error})",
              file=sys.stderr)  # fmt: skip
    except StepFailed as error:
        print(f"the old system of {server.name} did not stop in good order: {error}",
              file=sys.stderr)  # fmt: skip


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
