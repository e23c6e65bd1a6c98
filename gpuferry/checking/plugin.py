"""The pytest plugin that turns check functions into verdicts, and silence into failures."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType

import pytest
from testinfra.host import Host

from gpuferry.checking.backend import PinnedBackend
from gpuferry.checking.expectations import Expectations
from gpuferry.checking.job import Job, Target
from gpuferry.checking.mark import CheckInfo, info_of
from gpuferry.checking.node import Node
from gpuferry.checking.recorder import Recorder
from gpuferry.verdict import Verdict

_DEFECT = "this is a defect of gpuferry: report it with the evidence"
_crash = pytest.StashKey[BaseException]()
_recorder = pytest.StashKey[Recorder]()


class DeadlineExceeded(Exception):
    """A check took longer than its deadline."""


class CheckPlugin:
    """Everything `checks/` needs for one server; verdicts leave through `emit` one by one."""

    def __init__(self, job: Job, emit: Callable[[Verdict], None]) -> None:
        self._job = job
        self._emit = emit
        self._broken_files = 0
        sudo = job.target.user != "root" and job.ssh_config is not None
        self._backend = PinnedBackend(job.target.name, job.ssh_config, sudo=sudo)

    @pytest.fixture(scope="session")
    def host(self) -> Host:
        """testinfra's view of the server."""
        host = Host(self._backend)
        self._backend.set_host(host)
        return host

    @pytest.fixture(scope="session")
    def node(self, host: Host) -> Node:
        """The server, for many readings in one round trip."""
        return Node(host)

    @pytest.fixture(scope="session")
    def expectations(self) -> Expectations:
        """What the server should be."""
        return self._job.expectations

    @pytest.fixture(scope="session")
    def target(self) -> Target:
        """How the controller reaches the server."""
        return self._job.target

    @pytest.fixture(scope="session")
    def key_path(self) -> Path | None:
        """The private key of the server's user, None when the checks run on this machine."""
        return self._job.key_path

    @pytest.fixture(scope="session")
    def ssh_config(self) -> Path | None:
        """The OpenSSH configuration that reaches the server, None for this machine."""
        return self._job.ssh_config

    @pytest.fixture
    def verdict(self, request: pytest.FixtureRequest) -> Recorder:
        """Where a check leaves its one verdict."""
        recorder = Recorder()
        request.node.stash[_recorder] = recorder
        return recorder

    def pytest_configure(self, config: pytest.Config) -> None:
        """Make `@check` known, so that a misspelt marker is an error."""
        config.addinivalue_line("markers", "check: identity and next step of a check")

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out the checks of roles that this server does not have."""
        concern = collection_path.stem.removeprefix("test_")
        if concern == "security" and not self._asks_for(concern):
            return True  # minutes, not seconds
        if collection_path.suffix != ".py" or concern in self._job.expectations.concerns:
            return None
        return True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A check file that cannot be loaded is a failure of its own."""
        if report.failed:
            self._broken_files += 1
            lines = [line for line in report.longreprtext.splitlines() if line.strip()]
            self._fail("checks.collected", f"{report.nodeid} cannot be loaded", lines[-1])

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what was selected; refuse functions that are not checks, and doubled ids."""
        known: set[str] = set()
        for item in items:
            info = info_of(item)
            if info is None or info.id in known:
                said = "has no @check" if info is None else f"repeats the id {info.id!r}"
                self._fail("checks.collected", f"{item.name} {said}", item.nodeid)
            elif info.applies(self._job.expectations):
                known.add(info.id)
        items[:] = [
            item
            for item in items
            if (info := info_of(item)) and info.id in known and self._is_selected(info.id)
        ]
        if not items and not self._broken_files:
            wanted = ", ".join(self._job.select or []) or "all"
            roles = ", ".join(self._job.expectations.roles) or "none"
            self._fail(
                "checks.collected",
                "0 checks",
                f"selected: {wanted}; roles of this server: {roles}; "
                f"checks there: {', '.join(sorted(known)) or 'none'}",
                next_step="choose from the checks named in the evidence",
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Bound the readings that a check waits for."""
        yield from self._bounded(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Bound the check itself."""
        yield from self._bounded(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give the verdict once a check is over, with all its phases."""
        if call.excinfo is not None:
            item.stash.setdefault(_crash, call.excinfo.value)
        report = yield
        if call.when == "teardown":
            self._emit(self._conclude(item))
        return report

    def pytest_internalerror(self, excrepr: object) -> None:
        """pytest itself broke: say so instead of ending early."""
        self._fail("checks.completed", "pytest broke off", str(excrepr).strip().splitlines()[-1])

    def _bounded(self, item: pytest.Item) -> Generator[None, None, None]:
        info = info_of(item)
        assert info is not None  # others were dropped at collection
        self._backend.timeout_seconds = info.deadline_seconds

        def expire(_number: int, _frame: FrameType | None) -> None:
            raise DeadlineExceeded(f"did not answer within {info.deadline_seconds} s")

        signal.signal(signal.SIGALRM, expire)
        signal.alarm(info.deadline_seconds)
        try:
            yield
        finally:
            signal.alarm(0)

    def _conclude(self, item: pytest.Item) -> Verdict:
        info = info_of(item)
        assert info is not None
        crash = item.stash.get(_crash, None)
        recorder = item.stash.get(_recorder, None)
        if isinstance(crash, DeadlineExceeded):
            return self._verdict(info, measured=str(crash))
        if crash is not None:
            return self._verdict(info, measured="the check broke off", evidence=one_line(crash))
        if recorder is None or len(recorder.answers) != 1:
            given = len(recorder.answers) if recorder else 0
            return self._verdict(
                info,
                measured=f"the check gave {given} verdicts instead of 1",
                evidence=item.nodeid,
                next_step=_DEFECT,
            )
        answer = recorder.answers[0]
        # What cures a failure is no advice where there was nothing to measure.
        usual = info.next_step if answer.status == "fail" else ""
        next_step = "" if answer.status == "pass" else answer.next_step or usual
        return Verdict(
            id=info.id,
            server=self._job.target.name,
            severity=answer.severity or info.severity,
            status=answer.status,
            measured=answer.measured,
            expected=answer.expected or info.promise,
            evidence=answer.evidence,
            next_step=next_step.format(server=self._job.target.name),
        )

    def _verdict(
        self, info: CheckInfo, *, measured: str, evidence: str = "", next_step: str = ""
    ) -> Verdict:
        return Verdict(
            id=info.id,
            server=self._job.target.name,
            severity=info.severity,
            status="fail",
            measured=measured,
            expected=info.promise,
            evidence=evidence,
            next_step=(next_step or info.next_step).format(server=self._job.target.name),
        )

    def _fail(self, identity: str, measured: str, evidence: str, next_step: str = _DEFECT) -> None:
        self._emit(
            Verdict(
                id=identity,
                server=self._job.target.name,
                status="fail",
                severity="critical",
                measured=measured,
                expected="all selected checks run",
                evidence=evidence,
                next_step=next_step,
            )
        )

    def _asks_for(self, concern: str) -> bool:
        return any(name.split(".")[0] == concern for name in self._job.select or [])

    def _is_selected(self, identity: str) -> bool:
        wanted = self._job.select
        return not wanted or any(f"{identity}.".startswith(f"{name}.") for name in wanted)


def one_line(error: BaseException) -> str:
    """Return an exception as one line with the place it came from."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})" if trace else ""
    text = (str(error).strip() or "no text").splitlines()[0]
    return f"{type(error).__name__}: {text[:300]}{place}"
