"""test: run the suites in order of cost, each with what it needs started."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from gpuferry.engine import find
from gpuferry.errors import SpecError
from gpuferry.operate.console import say_on_stderr
from gpuferry.paths import REPOSITORY
from gpuferry.prepare import docker_engine, packages, prerequisites

# Suite to (needs the engine, needs Docker, how many run side by side).
SUITES = {
    "unit": (False, False, 2),
    "gpusim": (False, False, 2),
    "browser": (False, False, 1),
    "conformance": (True, False, 1),
    # They wait for servers about a third of the time.
    "nodes": (False, True, 3),
    # Two guests side by side; under emulation each mostly uses one processor.
    "vm": (False, True, 2),
    "e2e": (True, True, 3),
    "slow": (False, True, 2),
}
# Only when named: minutes of an emulated machine that builds modules.
ON_DEMAND = {"slow"}
# Programs that only one suite uses.
_PROGRAMS = {"browser": packages.BROWSER}
_NOTHING_COLLECTED = 5


def run(suites: list[str], pytest_arguments: list[str]) -> int:
    """Run the suites; 0 when all passed. A suite that collected nothing has failed.

    Raises:
        SpecError: no such suite.
    """
    for suite in suites:
        if suite not in SUITES:
            raise SpecError(f"{suite!r} is no test suite; accepted: {', '.join(SUITES)}.")
    had_engine = docker_engine.version() is not None
    results = {}
    try:
        for suite in suites or [name for name in SUITES if name not in ON_DEMAND]:
            results[suite] = _run(suite, pytest_arguments)
    finally:
        if not had_engine:
            docker_engine.stop_own_if_idle()
    for suite, (code, seconds) in results.items():
        word = "passed" if code == 0 else f"FAILED (exit {code})"
        say_on_stderr(f"{suite:<12} {word} in {seconds:.0f} s")
    return 0 if all(code == 0 for code, _ in results.values()) else 1


def _run(suite: str, arguments: list[str]) -> tuple[int, float]:
    needs_engine, needs_docker, workers = SUITES[suite]
    environment = dict(os.environ)
    if needs_engine:
        environment["GPUFERRY_PULUMI"] = str(find.ensure(say_on_stderr).path)
    if suite in _PROGRAMS:
        packages.install_missing(say_on_stderr, _PROGRAMS[suite])
    if needs_docker:
        prerequisites.prepare("local", say_on_stderr)
    say_on_stderr(f"running tests/{suite}")
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", f"tests/{suite}", *arguments]
    if workers > 1:
        command += ["-n", str(workers), "--dist", "loadscope"]
    code = subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode
    if code == _NOTHING_COLLECTED:
        say_on_stderr(f"tests/{suite}: nothing was collected, which is a failure")
    return code, time.monotonic() - started
