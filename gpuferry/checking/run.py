"""Check servers side by side, one process each, and miss nothing."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from gpuferry.checking.expectations import Expectations
from gpuferry.checking.job import Job, Line, Target
from gpuferry.errors import ServerUnreachable, SpecError
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession
from gpuferry.nodes.ssh_failure import fingerprint
from gpuferry.verdict import Verdict

_ROOT = Path(__file__).resolve().parents[2]
CHECKS_DIRECTORY = _ROOT / "checks"

_LOGIN = "login with the pinned host key"

# A verdict, or None when the server's checks are over.
_Event = tuple[Server, Verdict | None]


def run_checks(
    servers: Sequence[Server],
    expectations: Mapping[str, Mapping[str, Any]],
    *,
    select: list[str] | None = None,
    deadline_seconds: int = 300,
    on_verdict: Callable[[Verdict], None] | None = None,
    checks_directory: Path = CHECKS_DIRECTORY,
) -> list[Verdict]:
    """Judge every server and return all verdicts, in the order in which they came.

    `select` keeps checks by id or by the part before a dot. Whatever goes wrong is a verdict too:
    an unreachable server, checks that do not end within `deadline_seconds`, nothing to check.
    Raises `SpecError` when the expectations of a server are missing or malformed.
    """
    expected = {server.name: _parse(server, expectations) for server in servers}
    verdicts: list[Verdict] = []

    def take(verdict: Verdict) -> None:
        verdicts.append(verdict)
        if on_verdict:
            on_verdict(verdict)

    if not servers:
        take(
            _fail("checks.collected", "(none)", "no server to check", next_step="declare a server")
        )
        return verdicts
    with SshSession(servers) as session, contextlib.ExitStack() as processes:
        events: queue.Queue[_Event] = queue.Queue()
        for server in servers:
            log = session.directory / f"{server.name}.log"
            job = _job(server, expected[server.name], session, checks_directory, select)
            process = processes.enter_context(_worker(log))
            attend = threading.Thread(
                target=_attend, args=(server, job, session, process, log, events), daemon=True
            )
            attend.start()
        for verdict in _until_all_ended(servers, events, deadline_seconds):
            take(verdict)
    return verdicts


def _until_all_ended(
    servers: Sequence[Server], events: queue.Queue[_Event], deadline_seconds: int
) -> Iterator[Verdict]:
    ends_at = time.monotonic() + deadline_seconds
    running = {server.name for server in servers}
    while running:
        try:
            server, verdict = events.get(timeout=max(0.0, ends_at - time.monotonic()))
        except queue.Empty:
            break
        if verdict is None:
            running.discard(server.name)
        else:
            yield verdict
    for name in sorted(running):
        measured = f"the checks did not end within {deadline_seconds} s"
        yield _fail("checks.completed", name, measured, next_step=f"run: ./ferry check {name}")


def _attend(
    server: Server,
    job: Job,
    session: SshSession,
    process: subprocess.Popen[str],
    log: Path,
    events: queue.Queue[_Event],
) -> None:
    """Connect, hand over the job and pass verdicts on, until the server's process has ended."""
    try:
        for verdict in _verdicts_of(server, job, session, process, log):
            events.put((server, verdict))
    except Exception as error:  # in a thread it would be silence
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        events.put((server, _fail("checks.completed", server.name, "the run broke off", text)))
    finally:
        events.put((server, None))


def _verdicts_of(
    server: Server, job: Job, session: SshSession, process: subprocess.Popen[str], log: Path
) -> Iterator[Verdict]:
    started = time.monotonic()
    try:
        session.run(server, "true", timeout_seconds=30)
    except ServerUnreachable as failure:
        step = f"cure the reason given, then run: ./ferry check {server.name}"
        yield _fail(
            "server.reachable",
            server.name,
            "not reached",
            str(failure),
            expected=_LOGIN,
            next_step=step,
        )
        return
    yield Verdict(
        id="server.reachable",
        server=server.name,
        status="pass",
        severity="critical",
        measured=f"login in {time.monotonic() - started:.1f} s",
        expected=_LOGIN,
        evidence=f"{server.user}@{server.address}:{server.port}, {fingerprint(server.host_key)}",
    )
    finished = False
    assert process.stdin
    assert process.stdout
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(_with_secrets(job))
    for text in process.stdout:
        line = Line.model_validate_json(text)
        finished = finished or line.finished
        if line.verdict:
            yield line.verdict
    if not finished:
        said = [text for text in log.read_text(errors="replace").splitlines() if text.strip()]
        evidence = said[-1] if said else f"exit code {process.wait()}"
        yield _fail("checks.completed", server.name, "the check process broke off", evidence)


@contextlib.contextmanager
def _worker(log: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a check process early: it loads its libraries while the server is connected."""
    with log.open("wb") as errors, _start(errors) as process:
        try:
            yield process
        finally:
            # Also ends what the checks started: the process leads a group of its own.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _start(errors: IO[bytes]) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment["PYTHONPATH"] = path
    return subprocess.Popen(
        [sys.executable, "-m", "gpuferry.checking.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=environment,
        start_new_session=True,
    )


def _job(
    server: Server,
    expectations: Expectations,
    session: SshSession,
    checks_directory: Path,
    select: list[str] | None,
) -> Job:
    return Job(
        target=Target(**server.model_dump(include=set(Target.model_fields))),
        expectations=expectations,
        checks_directory=checks_directory,
        ssh_config=session.config_path,
        key_path=session.key_path(server),
        select=select,
    )


def _with_secrets(job: Job) -> str:
    """Serialise a job including the stores' keys, which pydantic masks otherwise."""
    document = job.model_dump(mode="json", by_alias=True)
    for store, masked in zip(
        job.expectations.object_stores, document["expectations"]["object_stores"], strict=True
    ):
        masked["secret_key"] = store.secret_key.get_secret_value()
    return json.dumps(document)


def _parse(server: Server, expectations: Mapping[str, Mapping[str, Any]]) -> Expectations:
    try:
        return Expectations.model_validate(expectations[server.name])
    except KeyError:
        raise SpecError(f"{server.name}: nothing says what this server should be") from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise SpecError(f"expectations of {server.name}: {path}: {first['msg']}") from None


def _fail(
    identity: str,
    server: str,
    measured: str,
    evidence: str = "",
    *,
    expected: str = "every selected check gives a verdict",
    next_step: str = "",
) -> Verdict:
    return Verdict(
        id=identity,
        server=server,
        status="fail",
        severity="critical",
        measured=measured,
        expected=expected,
        evidence=evidence,
        next_step=next_step or f"run again: ./ferry check {server}; if it repeats, report it",
    )
