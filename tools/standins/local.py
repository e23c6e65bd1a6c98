"""Run a command on this machine, as `command:local:Command` and `command:local:run` do."""

import os
import signal
import subprocess
import threading

from tools.standins.cancel import stop_group
from tools.standins.job import Job
from tools.standins.output import STDERR, STDOUT, Capture
from tools.standins.wire import Properties, reveal

SHELL = ["/bin/sh", "-c"]


def run(command: str, inputs: Properties, previous: Properties, job: Job) -> Properties:
    """Run a command and return its outputs; raises CommandFailed unless it exits with 0.

    `inputs` still carry their secret marks, `previous` are the outputs of the last run, which
    the command finds in its environment.
    """
    plain = reveal(inputs)
    capture = Capture(plain.get("logging"), job.log)
    try:
        process = subprocess.Popen(
            [*(plain.get("interpreter") or SHELL), command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=plain.get("dir"),
            env={**os.environ, **plain.get("environment", {}), **previous_env(plain, previous)},
            # Its own group, so that a cancel reaches everything that the command started.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise capture.failure(str(error), command, inputs) from None

    with job.stoppable(lambda: stop_group(process, signal.SIGTERM)):
        exit_code = _communicate(process, plain.get("stdin", ""), capture)
        if exit_code:
            raise capture.failure(_describe_exit(exit_code), command, inputs)
    return capture.outputs()


def previous_env(plain: Properties, previous: Properties) -> dict[str, str]:
    """Return the environment variables that hold the last run's output, empty ones left out."""
    if not plain.get("addPreviousOutputInEnv", True):
        return {}
    return {f"PULUMI_COMMAND_{name.upper()}": text for name, text in previous.items() if text}


def _communicate(process: "subprocess.Popen[bytes]", stdin: str, capture: Capture) -> int:
    """Feed stdin and follow both outputs to their end; return the exit code."""
    assert process.stdout
    assert process.stderr
    threads = [
        capture.follow(STDOUT, process.stdout),
        capture.follow(STDERR, process.stderr),
        threading.Thread(target=_feed, args=(process, stdin)),
    ]
    threads[-1].start()
    for thread in threads:
        thread.join()
    process.stdout.close()
    process.stderr.close()
    return process.wait()


def _feed(process: "subprocess.Popen[bytes]", text: str) -> None:
    """Write stdin; a command is free not to read it."""
    assert process.stdin
    try:
        with process.stdin as stream:
            stream.write(text.encode())
    except BrokenPipeError:
        pass


def _describe_exit(exit_code: int) -> str:
    if exit_code > 0:
        return f"exit status {exit_code}"
    return f"signal: {signal.strsignal(-exit_code)}"
