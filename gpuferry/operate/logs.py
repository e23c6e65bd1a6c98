"""logs: read back what servers shipped, also of those that are gone."""

from __future__ import annotations

import datetime
import difflib
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from gpuferry.engine.project import Project
from gpuferry.engine.run import Records
from gpuferry.errors import PrerequisiteMissing, SpecError
from gpuferry.harmless import harmless
from gpuferry.logs.archive import Archive, open_archive
from gpuferry.logs.lines import Line, Wanted
from gpuferry.logs.moments import moment, written
from gpuferry.logs.place import IDENTITY
from gpuferry.operate.console import print_json, say_on_stderr
from gpuferry.operate.servers import open_deployed
from gpuferry.prepare import packages
from shipper.keys import Chunk

_PROGRESS_SECONDS = 2.0
_CONTINUED = "\n" + 28 * " "


def show(
    project: Project,
    name: str | None,
    *,
    since: str | None,
    until: str | None,
    unit: str | None,
    container: str | None,
    as_json: bool,
) -> None:
    """Lines of one server, or the names of the servers that have any."""
    wanted = asked(since, until, unit, container, datetime.datetime.now(datetime.UTC))
    if name is None and wanted != Wanted():
        raise SpecError("Which server? Give its name; ./ferry logs alone says which there are.")
    with open_archive(_access(project)) as archive:
        if name is None:
            _list(archive, as_json)
            return
        seen: set[str] = set()
        empty = True
        for line in read(archive, name, wanted, seen):
            empty = False
            print(as_object(line) if as_json else as_text(line))
        if empty:
            say_on_stderr(nothing(name, wanted, seen))


def asked(
    since: str | None,
    until: str | None,
    unit: str | None,
    container: str | None,
    now: datetime.datetime,
) -> Wanted:
    """What the options ask for.

    Raises:
        SpecError: one of them is empty, or together they can never have a line.
    """
    for option, value in (("--unit", unit), ("--container", container)):
        if value is not None and not value.strip():
            raise SpecError(f"{option} is empty; give a name, or leave it out for all.")
    if unit and container:
        raise SpecError("Give --unit or --container, not both.")
    wanted = Wanted(
        since=0 if since is None else moment(since, "--since", now),
        until=1 << 62 if until is None else moment(until, "--until", now),
        unit=unit or "",
        container=container or "",
    )
    if wanted.until <= wanted.since:
        raise SpecError(f"--until {until} is not after --since {since}; no line can be of then.")
    return wanted


def nothing(name: str, wanted: Wanted, seen: set[str]) -> str:
    """Why there is no line: nobody logged then, or another unit or container did (`seen`)."""
    what = wanted.container or wanted.unit
    if not seen:
        return f"{name} has no lines of that time"
    kind = "container" if wanted.container else "unit"
    near = difflib.get_close_matches(what, seen, n=3, cutoff=0.5)
    shown = near or sorted(seen)[:8]
    return f"{name} has no lines of the {kind} {what!r} in that time; it has: {', '.join(shown)}"


def read(
    archive: Archive, name: str, wanted: Wanted, seen: set[str] | None = None
) -> Iterator[Line]:
    """Wanted lines of one server; tells on stderr how far it is where that takes long.

    `seen` collects the names of the units or containers that were passed over.

    Raises:
        SpecError: this server has no logs there; names those that have.
    """
    chunks = archive.chunks(name, wanted)
    if not chunks and name not in (known := archive.servers()):
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise SpecError(
            f"There are no logs of {name!r}; the bucket has those of: "
            f"{', '.join(known) or 'no server'}.{hint}"
        )
    yield from _with_progress(archive, chunks, wanted, seen if seen is not None else set())


def _with_progress(
    archive: Archive, chunks: list[Chunk], wanted: Wanted, seen: set[str]
) -> Iterator[Line]:
    said = time.monotonic()
    # Where lines run over the terminal they are progress enough.
    quiet = sys.stdout.isatty() and not (wanted.unit or wanted.container)
    stream = archive.stream(chunks, Wanted(wanted.since, wanted.until))
    for line in stream:
        if not quiet and time.monotonic() - said > _PROGRESS_SECONDS:
            said = time.monotonic()
            say_on_stderr(f"{archive.opened} of {len(chunks)} chunks read")
        if wanted.has(line):
            yield line
        elif wanted.container:
            seen |= {line.container} - {""}
        elif wanted.unit:
            seen |= {line.unit} - {""}


def prune(project: Project, *, as_json: bool) -> None:
    """Remove what is older than the stack file keeps."""
    logs = project.spec().logs
    if logs is None or not logs.retention_days:
        raise SpecError(
            f"{project.stack_file.name} keeps logs for ever; set gpuferry:logs.retention_days."
        )
    cut = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=logs.retention_days)
    with open_archive(_access(project)) as archive:
        gone = archive.prune(int(cut.timestamp() * 1e6))
    if as_json:
        print_json({"ok": True, "removed_chunks": gone, "before": cut.isoformat()})
        return
    print(f"{gone} chunks whose lines are older than {logs.retention_days} days were removed.")


def _access(project: Project) -> dict[str, Any]:
    pulumi = open_deployed(project)
    access = shipped_to(pulumi.all_records()) or pulumi.outputs().get("logs")
    if not access:
        raise PrerequisiteMissing(
            f"Stack {project.stack} keeps no logs in a store. Declare gpuferry:logs "
            f"(docs/logs.md), then run: ./ferry up --stack {project.stack}"
        )
    if access["identity"]:
        packages.install_missing(say_on_stderr, ("age",))
    return dict(access)


def shipped_to(records: Records) -> dict[str, Any]:
    """Where the servers that were made ship to, and what opens it; empty when they do not.

    The stack's output is as old as the last deployment that went well; logs are wanted most when
    one did not.
    """
    used = [record["variables"] for record in records("-inventory")]
    stores = [v for v in used if v.get("log_shipping_store")]
    if not stores:
        return {}
    store, keys = (stores[0][f"log_shipping_{key}"] for key in ("store", "credentials"))
    pair = records(f"::{IDENTITY}") if stores[0]["log_shipping_recipient"] else []
    return {**store, **keys, "name": store["bucket"],
            "identity": pair[0]["identity"] if pair else ""}  # fmt: skip


def _list(archive: Archive, as_json: bool) -> None:
    names = archive.servers()
    if as_json:
        print_json({"ok": True, "servers": names})
        return
    print("\n".join(names) if names else "No server has logs there yet.")


def as_text(line: Line) -> str:
    """One line for people; what would move their terminal is shown, not sent.

    Lines after the first are indented, so that none looks like an entry of its own.
    """
    who = line.container or line.identifier or line.unit or "kernel"
    pid = f"[{line.pid}]" if line.pid else ""
    # A container with a terminal ends its lines with both.
    message = line.message.rstrip("\r\n")
    text = f"{who}{pid}: {message}"
    text = harmless(text) if sys.stdout.isatty() else text
    return f"{written(line.time)} " + text.replace("\n", _CONTINUED)


def as_object(line: Line) -> str:
    """One line for programs: what is known of it, and always its message."""
    told = {
        "time": written(line.time),
        "message": line.message,
        "unit": line.unit,
        "container": line.container,
        "identifier": line.identifier,
        "pid": line.pid,
        "priority": line.priority,
        "stream": line.stream,
    }
    kept = {key: value for key, value in told.items() if value not in ("", None)}
    # An empty line is one, too.
    return json.dumps({"message": "", **kept})
