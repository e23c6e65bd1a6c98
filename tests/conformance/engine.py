"""Drive the real engine on a throw-away program, as a user at a shell would."""

import json
import os
import re
import signal
import subprocess
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND_DEADLINE_SECONDS = 60
POLL_SECONDS = 0.02
PROJECT = "conformance"
STACK = "test"

HEADER = """\
import os
import pulumi
from pulumi_command import local, remote
"""

# "    + 2 created", "    +-1 replaced", "    3 unchanged" in the summary of an update.
SUMMARY_LINE = re.compile(
    r"^ +(?:[-+~]+ *)?(\d+) (created|updated|deleted|replaced|unchanged)$", re.M
)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Return once the condition holds; fail naming what was waited for when time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds:g} s still waiting for {what}")
        time.sleep(POLL_SECONDS)


@dataclass(frozen=True)
class Result:
    """What one call of the engine did and printed (stdout and stderr together)."""

    exit_code: int
    text: str

    @property
    def changes(self) -> dict[str, int]:
        """The summary without the stack itself and what stayed the same, e.g. {"created": 2}."""
        counts = {what: int(count) for count, what in SUMMARY_LINE.findall(self.text)}
        counts.pop("unchanged", None)
        return counts


class Running:
    """A call of the engine that is under way."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Start to follow what it prints."""
        self._process = process
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as stream:
            for line in stream:
                self._lines.append(line)

    @property
    def text(self) -> str:
        """All that was printed so far."""
        return "".join(list(self._lines))

    def wait_for(self, text: str) -> None:
        """Wait until the engine has printed a text; fail at once when it ends without."""
        wait_until(
            lambda: text in self.text or self._process.poll() is not None,
            f"{text!r} in the output:\n{self.text}",
        )
        self._reader.join(0 if self._process.poll() is None else COMMAND_DEADLINE_SECONDS)
        assert text in self.text

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill the engine, and it alone, without a chance to tidy up."""
        self._process.kill()
        self._process.wait()

    def result(self, deadline_seconds: float = COMMAND_DEADLINE_SECONDS) -> Result:
        """Wait for the end, by force when the deadline passes."""
        try:
            exit_code = self._process.wait(deadline_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(
                f"pulumi did not end within {deadline_seconds:g} s:\n{self.text}"
            ) from None
        self._reader.join(deadline_seconds)
        return Result(exit_code, self.text)


class Stack:
    """One project with one stack, its own state, its own Pulumi home."""

    def __init__(self, root: Path, engine: str, search_path: str) -> None:
        """Keep everything below `root`."""
        self.root = root
        self.path = root / "project"
        self.state_path = root / "state"
        self._engine = engine
        self._home = root / "home"
        self._environment = {
            **os.environ,
            "PATH": search_path,
            "PULUMI_HOME": str(self._home),
            "PULUMI_BACKEND_URL": self.state_path.as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "correct horse",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_STACK": STACK,
        }

    def initialise(self) -> None:
        """Make the project and its stack."""
        for directory in (self.path, self.state_path, self._home):
            directory.mkdir()
        (self.path / "Pulumi.yaml").write_text(f"name: {PROJECT}\nruntime: python\n")
        _succeeded(self.run("stack", "init", STACK))

    def program(self, text: str) -> None:
        """Replace the program; common imports are put before it."""
        (self.path / "__main__.py").write_text(HEADER + textwrap.dedent(text))

    def start(self, *arguments: str, **environment: str) -> Running:
        """Start the engine without waiting for it."""
        return Running(
            subprocess.Popen(
                [self._engine, *arguments, "--non-interactive", "--color=never"],
                cwd=self.path,
                env={**self._environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        )

    def run(self, *arguments: str, **environment: str) -> Result:
        """Run the engine to its end."""
        return self.start(*arguments, **environment).result()

    def start_up(self, **environment: str) -> Running:
        """Start an update without a preview."""
        return self.start("up", "--yes", "--skip-preview", **environment)

    def try_up(self, **environment: str) -> Result:
        """Update; the outcome is for the test to judge."""
        return self.start_up(**environment).result()

    def up(self, **environment: str) -> Result:
        """Update, which must succeed."""
        return _succeeded(self.try_up(**environment))

    def preview(self, **environment: str) -> Result:
        """Preview, which must succeed."""
        return _succeeded(self.run("preview", "--diff", **environment))

    def refresh(self) -> Result:
        """Refresh, which must succeed."""
        return _succeeded(self.run("refresh", "--yes", "--skip-preview"))

    def destroy(self) -> Result:
        """Destroy, which must succeed."""
        return _succeeded(self.run("destroy", "--yes", "--skip-preview"))

    def outputs(self) -> dict[str, Any]:
        """Return the stack's outputs, secrets in clear."""
        text = _succeeded(self.run("stack", "output", "--json", "--show-secrets")).text
        outputs: dict[str, Any] = json.loads(text)
        return outputs

    def commands(self) -> list[dict[str, Any]]:
        """Return the command resources that the state holds."""
        path = self.state_path / ".pulumi" / "stacks" / PROJECT / f"{STACK}.json"
        latest = json.loads(path.read_text())["checkpoint"]["latest"]
        resources = latest.get("resources", [])
        return [item for item in resources if item["type"].startswith("command:")]

    def log(self) -> list[str]:
        """Return the lines that the program's commands wrote to `log` in the project."""
        path = self.path / "log"
        return path.read_text().splitlines() if path.exists() else []

    def locks(self) -> list[Path]:
        """Return the locks that the engine left."""
        return [path for path in self.state_path.glob(".pulumi/locks/**/*") if path.is_file()]

    def files_with(self, canary: str) -> list[Path]:
        """Return every file of state, history, and Pulumi's home that holds a text."""
        return [
            path
            for directory in (self.state_path, self._home)
            for path in directory.rglob("*")
            if path.is_file() and canary.encode() in path.read_bytes()
        ]


def _succeeded(result: Result) -> Result:
    assert result.exit_code == 0, result.text
    return result
