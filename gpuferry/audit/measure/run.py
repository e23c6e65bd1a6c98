"""Start the sampler here or over SSH, and keep the last complete answer whatever happens."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpuferry.errors import ServerUnreachable, SpecError, StepFailed

_SAMPLER = Path(__file__).with_name("sampler.py")
_REPORT_SECONDS = 15.0


def command(ssh: str | None, ssh_config: Path | None = None) -> list[str]:
    """The program that gets the sampler on stdin; OpenSSH with the user's own configuration.

    Raises:
        SpecError: the host looks like an option.
    """
    if ssh is None:
        return ["python3", "-"]
    if ssh.startswith("-") or not ssh.strip():
        raise SpecError(f"--ssh {ssh!r}: a host is needed, such as trainer-1 or me@192.0.2.7.")
    options = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=15"]
    config = ["-F", str(ssh_config)] if ssh_config else []
    return ["ssh", *config, *options, ssh, "python3", "-"]


def measure(
    *, ssh: str | None, seconds: float, pid: int | None, data: Path | None, every: float,
    say: Callable[[str], None], ssh_config: Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Sample for so long; Ctrl-C ends it early and what was seen until then is returned.

    Raises:
        ServerUnreachable: SSH did not get through.
        StepFailed: there is no python3, or it could not run the sampler.
        SpecError: no such process.
    """
    folder = str(data) if data is None or ssh else str(data.resolve())
    arguments = {
        "seconds": seconds, "every": min(every, max(seconds / 3, 0.1)), "pid": pid,
        "data": None if data is None else folder,
    }  # fmt: skip
    script = f"ARGUMENTS = {arguments!r}\n" + _SAMPLER.read_text(encoding="utf-8")
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        try:
            process = subprocess.Popen(
                command(ssh, ssh_config), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, text=True,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise StepFailed(f"measure: {error.filename} is not installed here.") from None
        with process, _ended_softly():
            say(f"measuring {ssh or 'this machine'} for {seconds:g} s; Ctrl-C keeps what was seen")
            last, interrupted = _follow(process, script, seconds, say)
        errors.seek(0)
        return _result(last, process.returncode, errors.read(), ssh, interrupted=interrupted)


@contextlib.contextmanager
def _ended_softly() -> Iterator[None]:
    """A terminal that is closed, and `timeout`, count as Ctrl-C: hours of watching are kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow(
    process: subprocess.Popen[str], script: str, seconds: float, say: Callable[[str], None]
) -> tuple[dict[str, Any], bool]:
    """The last complete answer, and whether somebody stopped it."""
    assert process.stdin is not None
    assert process.stdout is not None
    last: dict[str, Any] = {}
    try:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(script)
            process.stdin.close()
        told = time.monotonic()
        for line in process.stdout:
            first = not last
            last = _parse(line) or last
            if first and last.get("samples"):
                say("  the first sample is there")
            if time.monotonic() - told > _REPORT_SECONDS and last.get("samples"):
                told = time.monotonic()
                say(f"  {last['seconds']:.0f} of {seconds:g} s, {last['samples']} samples")
    except KeyboardInterrupt:
        # It ends at its next look at the clock; ssh ends at once, and what was read is enough.
        process.terminate()
        with contextlib.suppress(KeyboardInterrupt):
            for line in process.stdout:
                last = _parse(line) or last
        process.kill()
        return last, True
    return last, False


def _parse(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _result(
    last: dict[str, Any], code: int | None, error: str, ssh: str | None, *, interrupted: bool
) -> dict[str, Any]:
    if "error" in last:
        raise SpecError(f"measure: {last['error']} on {ssh or 'this machine'}.")
    if last.get("samples"):
        return {**last, "interrupted": interrupted or not last.get("done", False)}
    if interrupted:
        raise StepFailed("measure: stopped before the first sample; nothing was measured.")
    reason = error.strip().splitlines()[-1] if error.strip() else f"exit code {code}"
    if ssh is not None and code == 255:
        raise ServerUnreachable(f"{ssh} cannot be reached with `ssh {ssh}`: {reason}")
    raise StepFailed(f"measure: python3 on {ssh or 'this machine'} failed: {reason}")
