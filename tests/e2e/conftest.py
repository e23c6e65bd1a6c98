"""Whole stacks from a real `./ferry`, each with a state, a project folder and a name of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuferry.nodes.local import survey
from gpuferry.nodes.local.docker import docker
from gpuferry.paths import REPOSITORY
from tests.support.node import own_turn, sweep_dead_runs

_SECONDS = 600
GROUPS = ("plan", "sim", "image", "secret", "data")
SERVER = {"name": "gpu-1", "cpus": 1, "memory_gib": 1, "data_disk_gib": 1}


@dataclass
class Stack:
    """One stack and the command line on it."""

    name: str
    folder: Path
    environment: dict[str, str]

    @property
    def file(self) -> Path:
        """The stack file."""
        return self.folder / f"Pulumi.{self.name}.yaml"

    def declare(self, **config: Any) -> None:
        """Write the stack file; keeps the salt that an earlier deployment added."""
        document: dict[str, Any] = {"config": {f"gpuferry:{k}": v for k, v in config.items()}}
        if self.file.exists():
            before = yaml.safe_load(self.file.read_text())
            document |= {k: v for k, v in before.items() if k != "config"}
        self.file.write_text(yaml.safe_dump(document, sort_keys=False))

    def command(self, *arguments: str) -> list[str]:
        """The command line of one call."""
        verb, *rest = arguments
        option = ["--stack", self.name]
        # Commands of their own take options after their own names.
        own = [verb, *rest, *option] if verb in GROUPS else [verb, *option, *rest]
        return [str(REPOSITORY / "ferry"), *own]

    def ferry(
        self, *arguments: str, code: int = 0, seconds: int = _SECONDS, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run ferry; fails the test on another exit code than expected."""
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            input=stdin,
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stdout + done.stderr
        return done

    def json(self, *arguments: str, code: int = 0, stdin: str = "") -> Any:
        """Run ferry with --json; returns the document."""
        return json.loads(self.ferry(*arguments, "--json", code=code, stdin=stdin).stdout)

    def shell(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a shell script in the environment that `ferry env` prints."""
        loaded = f'eval "$({self.command("env")[0]} env --stack {self.name})" && '
        return subprocess.run(
            ["sh", "-c", loaded + script],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start ferry in the background, in a process group of its own."""
        return subprocess.Popen(
            self.command(*arguments),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def kill_when(self, call: str, sign: str, number: signal.Signals, seconds: int = 120) -> str:
        """Start ferry, signal it as soon as `sign` is printed; return what it printed."""
        said, deadline = [], time.monotonic() + seconds
        with self.start(*call.split()) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                if sign in line:
                    process.send_signal(number)
                    break
                assert time.monotonic() < deadline, f"waited for {sign!r} in:\n{''.join(said)}"
            else:
                pytest.fail(f"{sign!r} was never printed:\n{''.join(said)}")
            said.append(process.stdout.read())
        return "".join(said)

    def containers(self) -> list[str]:
        """All containers of the stack, running or not."""
        label = f"label=gpuferry.stack={self.name}"
        return sorted(docker("ps", "-a", "--filter", label, "--format", "{{.Names}}").split())

    def engine_ended(self, seconds: int = 60) -> None:
        """Wait until nothing of this stack runs any more: no Pulumi, and no Ansible without one."""
        deadline = time.monotonic() + seconds
        while left := [words for words in _command_lines() if self.name in words or _orphan(words)]:
            assert time.monotonic() < deadline, f"still running: {left}"
            time.sleep(0.2)


def _command_lines() -> Iterator[list[str]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue


def _orphan(words: list[str]) -> bool:
    """Whether this is an Ansible whose private directory, and so whose run, is gone."""
    inventory = next((w for w in words if w.startswith("/dev/shm/gpuferry-")), None)
    return inventory is not None and not Path(inventory).exists()


NewStack = Callable[[], Stack]


@pytest.fixture(scope="session", autouse=True)
def _swept() -> None:
    """Remove what killed test runs left; have the environment that `./ferry` sets up once."""
    subprocess.run([str(REPOSITORY / "ferry"), "--help"], check=True, capture_output=True)
    sweep_dead_runs()


def _stack(root: Path, name: str) -> Stack:
    project = root / "project"
    project.mkdir()
    program = yaml.safe_load((REPOSITORY / "Pulumi.yaml").read_text())
    program["main"] = str(REPOSITORY / "infra")
    (project / "Pulumi.yaml").write_text(yaml.safe_dump(program))
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("PULUMI_")},
        "XDG_DATA_HOME": str(root / "data"),
        "XDG_CONFIG_HOME": str(root / "config"),
        "GPUFERRY_DIRECTORY": str(project),
    }
    return Stack(name, project, environment)


@pytest.fixture(scope="session")
def _baked(_swept: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have the image that SERVER starts from, once for all tests and runs.

    How a bare server converges is for tests/nodes, test_docs and test_interrupted.
    """
    stack = _stack(tmp_path_factory.mktemp("baked"), f"e{os.getpid()}-0")
    stack.declare(servers=[SERVER])
    with own_turn():
        stack.ferry("image", "build", "node")


@pytest.fixture(scope="module")
def new_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewStack]:
    """Return a function that makes a stack; all of it is removed afterwards."""
    stacks: list[Stack] = []

    def make() -> Stack:
        root = tmp_path_factory.mktemp("stack")
        stacks.append(_stack(root, f"e{os.getpid()}-{len(stacks) + 1}"))
        return stacks[-1]

    try:
        yield make
    finally:
        for stack in stacks:
            subprocess.run(
                stack.command("down", "--yes"),
                env=stack.environment,
                capture_output=True,
                check=False,
                timeout=_SECONDS,
            )
            before = os.environ.get("XDG_DATA_HOME")
            os.environ["XDG_DATA_HOME"] = stack.environment["XDG_DATA_HOME"]
            survey.sweep(stack.name)
            if before is None:
                del os.environ["XDG_DATA_HOME"]
            else:
                os.environ["XDG_DATA_HOME"] = before
