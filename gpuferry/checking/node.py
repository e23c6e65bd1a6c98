"""Many readings in one round trip: what makes the checks quick."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from testinfra.host import Host

# Runs on the server. Commands run side by side, because some (sshd -T, docker info) are slow.
_READ = """
import concurrent.futures, subprocess
def read(command):
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, stdin=subprocess.DEVNULL)
    texts = [stream.decode(errors="replace") for stream in (done.stdout, done.stderr)]
    return [done.returncode, *texts]
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    answer = dict(zip(payload, pool.map(read, payload.values())))
"""
_FRAME = """
import json, os, sys
os.environ["LC_ALL"] = "C.UTF-8"
os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
payload = json.load(sys.stdin)
{program}
json.dump(answer, sys.stdout)
"""


@dataclass(frozen=True)
class Reading:
    """What one command said."""

    exit_code: int
    output: str
    error: str

    @property
    def text(self) -> str:
        """The output without surrounding white space; empty when the command failed."""
        return self.output.strip() if self.exit_code == 0 else ""

    @property
    def trouble(self) -> str:
        """One line about a command that failed."""
        first = (self.error.strip() or self.output.strip() or "no output").splitlines()[0]
        return f"exit code {self.exit_code}: {first}"

    @property
    def properties(self) -> dict[str, str]:
        """`key=value` lines, as `systemctl show` prints them."""
        pairs = (line.partition("=") for line in self.output.splitlines())
        return {key: value for key, _, value in pairs}


class Node:
    """The server, asked in as few round trips as possible."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def read(self, seconds: int | None = None, /, **commands: str) -> dict[str, Reading]:
        """Run shell commands side by side, as root and read-only; the readings keep their names.

        `seconds` bounds them in the place of the check's deadline.
        """
        answers = self.python(_READ, commands, seconds)
        return {name: Reading(*answer) for name, answer in answers.items()}

    def python(self, program: str, payload: object, seconds: int | None = None) -> Any:
        """Run a Python program on the server: it reads `payload` and leaves its `answer`.

        `seconds` bounds it in the place of the check's deadline. The payload goes over stdin and
        may hold secrets; the program is visible in process lists.
        """
        done = self._host.run(
            "python3 -c %s",
            _FRAME.format(program=program),
            stdin=json.dumps(payload).encode(),
            seconds=seconds,
        )
        if done.rc != 0:
            last = (done.stderr.strip() or "no output").splitlines()[-1]
            raise RuntimeError(f"the server could not be read (exit code {done.rc}): {last}")
        return json.loads(done.stdout)
