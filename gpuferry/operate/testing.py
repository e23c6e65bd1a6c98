"""test: run the suites in order of cost, each with what it needs started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple

from gpuferry.engine import find
from gpuferry.errors import SpecError
from gpuferry.operate.console import say_on_stderr
from gpuferry.paths import REPOSITORY
from gpuferry.prepare import docker_engine, packages, prerequisites


class Suite(NamedTuple):
    """What a suite needs, and how many of its tests run side by side."""

    engine: bool
    docker: bool
    workers: int
    # Tests of one module share servers, so they stay together and in order.
    modules_stay_together: bool = True


SUITES = {
    "unit": Suite(False, False, 2),
    # These sleep most of their time, and share nothing.
    "gpusim": Suite(False, False, 10, modules_stay_together=False),
    "browser": Suite(False, False, 1),
    "conformance": Suite(True, False, 2),
    # They wait for servers about a third of the time; with three, two processors are never idle.
    "nodes": Suite(False, True, 3),
    # Two guests side by side; under emulation each mostly uses one processor.
    "vm": Suite(False, True, 2),
    "e2e": Suite(True, True, 3),
}
SLOW = "--slow"  # see tests/conftest.py
# Programs that only one suite uses.
_PROGRAMS = {"browser": packages.BROWSER}
_INTERRUPTED, _NOTHING_COLLECTED = 2, 5  # pytest's exit codes


def run(suites: list[str], pytest_arguments: list[str]) -> int:
    """Run the suites; 0 when all passed. A suite that collected nothing has failed.

    Raises:
        SpecError: no such suite.
    """
    for suite in suites:
        if suite not in SUITES:
            raise SpecError(f"{suite!r} is no test suite; accepted: {', '.join(SUITES)}.")
    chosen = suites or list(SUITES)
    had_engine = docker_engine.version() is not None
    results = {}
    ahead = _engine_ahead(chosen)
    try:
        for suite in chosen:
            if ahead is not None and SUITES[suite].engine:
                ahead.wait()
            results[suite] = _run(suite, pytest_arguments)
    finally:
        if ahead is not None and ahead.poll() is None:
            os.killpg(ahead.pid, signal.SIGINT)
            ahead.wait()
        if not had_engine:
            docker_engine.stop_own_if_idle()
    for suite, (code, seconds) in results.items():
        word = "passed" if code == 0 else f"FAILED (exit {code})"
        say_on_stderr(f"{suite:<12} {word} in {seconds:.0f} s")
    if SLOW not in pytest_arguments:
        say_on_stderr(f"left out, as pytest counted: what is marked slow (./ferry test {SLOW})")
    return 0 if all(code == 0 for code, _ in results.values()) else 1


def _engine_ahead(suites: list[str]) -> subprocess.Popen[bytes] | None:
    """Begin to build a missing engine, at the lowest priority, while suites run that mostly wait.

    Whether that went well is seen when the engine is wanted.
    """
    if find.find() is not None or not any(SUITES[suite].engine for suite in suites):
        return None
    program = (
        "from gpuferry.engine import find; from gpuferry.operate.console import say_on_stderr; "
        "find.ensure(say_on_stderr)"
    )
    # In this session: priorities do not count between sessions where the kernel groups by them.
    return subprocess.Popen(
        ["chrt", "--idle", "0", sys.executable, "-c", program],
        cwd=REPOSITORY,
        process_group=0,
        stdin=subprocess.DEVNULL,
    )


def _run(suite: str, arguments: list[str]) -> tuple[int, float]:
    needs = SUITES[suite]
    environment = dict(os.environ)
    if needs.engine:
        environment["GPUFERRY_PULUMI"] = str(find.ensure(say_on_stderr).path)
    if suite in _PROGRAMS:
        packages.install_missing(say_on_stderr, _PROGRAMS[suite])
    if needs.docker:
        prerequisites.prepare("local", say_on_stderr)
    say_on_stderr(f"running tests/{suite}")
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", f"tests/{suite}", *arguments]
    if needs.workers > 1:
        spread = "loadscope" if needs.modules_stay_together else "load"
        # In the order that tests/conftest.py gives: what takes longest comes first.
        command += ["-n", str(needs.workers), "--dist", spread, "--no-loadscope-reorder"]
    code = _until_it_has_tidied_up(subprocess.Popen(command, cwd=REPOSITORY, env=environment))
    if code == _NOTHING_COLLECTED:
        say_on_stderr(f"tests/{suite}: nothing was collected, which is a failure")
    return code, time.monotonic() - started


def _until_it_has_tidied_up(pytest: subprocess.Popen[bytes]) -> int:
    """The exit code. Interrupted, pytest takes down the servers it made; killed, it would not.

    Ctrl-C in a terminal reaches pytest by itself, SIGTERM reaches only us.
    """
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.send_signal(signal.SIGINT))
    try:
        code = pytest.wait()
    except KeyboardInterrupt:
        say_on_stderr("waiting until the tests have taken down what they made")
        pytest.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    if code == _INTERRUPTED:
        raise KeyboardInterrupt  # no further suite
    return code
