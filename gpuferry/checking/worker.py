"""The process that checks one server: a job on stdin, verdicts as JSON lines on stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from gpuferry.checking.job import Job, Line
from gpuferry.checking.plugin import CheckPlugin
from gpuferry.verdict import Verdict

# Nothing of the caller's own pytest set-up may change what is judged.
_ARGUMENTS = (
    "--config-file=/dev/null",
    "--import-mode=importlib",
    "--continue-on-collection-errors",
    "--strict-markers",
    "--capture=no",
    "--disable-plugin-autoload",
    "-pno:cacheprovider",
    "-pno:terminal",
)


def judge(job: Job, emit: Callable[[Verdict], None]) -> bool:
    """Run one server's checks; False when pytest itself did not get through."""
    directory = str(job.checks_directory)
    exit_code = pytest.main(
        [*_ARGUMENTS, f"--rootdir={directory}", directory], plugins=[CheckPlugin(job, emit)]
    )
    return exit_code in (
        pytest.ExitCode.OK,
        pytest.ExitCode.TESTS_FAILED,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    )


def main() -> int:
    """Read the job, give the verdicts, and say at the end that these were all."""
    # Whatever a check or pytest prints goes to stderr; only verdicts leave through the real stdout.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    job = Job.model_validate_json(sys.stdin.buffer.read())

    def emit(verdict: Verdict) -> None:
        answers.write(Line(verdict=verdict).model_dump_json(exclude_none=True) + "\n")

    finished = judge(job, emit)
    if finished:
        answers.write(Line(finished=True).model_dump_json(exclude_none=True) + "\n")
    return 0 if finished else 1


if __name__ == "__main__":
    sys.exit(main())
