"""What the measures share: servers, runs in turn, and the figure that comes of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from gpuferry import inventory
from gpuferry.converge.run import converge
from gpuferry.engine import find
from gpuferry.engine.project import Project
from gpuferry.engine.run import Pulumi
from gpuferry.inventory import Entry
from gpuferry.nodes.session import SshSession
from gpuferry.paths import REPOSITORY
from tests.bench import log_shipping
from tests.support.node import Node, NodeMaker

SERVER = {"name": "gpu-1", "gpu": {"model": "L4", "count": 2}}
FERRY = [str(REPOSITORY / "ferry")]


@dataclass(frozen=True)
class Pair:
    """Two series of seconds, taken in turn, and the aim for their ratio."""

    name: str
    ours: Sequence[float]
    peer: str
    peers: Sequence[float]
    at_most: float | None = None
    seconds: float | None = None
    # What the figures are in, the aim's `seconds` too.
    unit: str = "s"


class Bench:
    """What the measures share: nodes, a folder, the number of runs."""

    def __init__(self, folder: Path, runs: int) -> None:
        self.folder = folder
        self.runs = runs
        self.maker = NodeMaker("b")
        self._converged: list[Node] = []
        self._deployed: list[tuple[Entry, SshSession]] = []
        self._clean_up = contextlib.ExitStack()

    def bare(self) -> Node:
        """A new node with nothing on it."""
        return self.maker(name=f"node{len(self._converged) + 1}")

    def log_shipping(self, number: int) -> log_shipping.Measured:
        """One run of its own server."""
        return log_shipping.measure(self.maker, number)

    def converged(self, count: int) -> list[Node]:
        """So many nodes in their declared state; made once, side by side."""
        new = []
        while len(self._converged) < count:
            new.append(self.maker(name=f"node{len(self._converged) + 1}"))
            self._converged.append(new[-1])
        if new:
            converge([node.entry() for node in new], say=silent)
        return self._converged[:count]

    @property
    def project(self) -> Project:
        """The folder of the deployed stack."""
        folder = self.folder / "stack"
        if not folder.exists():
            return new_project(folder, str(REPOSITORY / "infra"))
        return Project(folder, f"b{os.getpid()}-8")

    def deployed(self) -> tuple[list[str], Entry, SshSession]:
        """A stack of one server and one bucket, as `ferry up` makes it; made once.

        Returns the options that name it, its server, and a session with that.
        """
        project = self.project
        options = ["--stack", project.stack, "-C", str(project.directory)]
        if not self._deployed:
            config = {
                "gpuferry:servers": [{**SERVER, "cpus": 1, "memory_gib": 1}],
                "gpuferry:object_stores": [{"name": "datasets"}],
            }
            project.stack_file.write_text(yaml.safe_dump({"config": config}))
            self._clean_up.callback(lambda: run([*FERRY, "down", "--yes", *options]))
            run([*FERRY, "up", *options])
            pulumi = Pulumi(find.ensure(silent), project)
            (entry,) = (inventory.parse(raw) for raw in pulumi.records("-inventory"))
            session = self._clean_up.enter_context(SshSession([entry.server]))
            self._deployed.append((entry, session))
        return (options, *self._deployed[0])

    def in_turn(self, *sides: Callable[[], None]) -> list[list[float]]:
        """Run the sides A B A B … after one warm-up each; seconds by side."""
        for side in sides:
            side()
        series: list[list[float]] = [[] for _ in sides]
        for _ in range(self.runs):
            for index, side in enumerate(sides):
                series[index].append(seconds_of(side))
        return series

    def close(self) -> None:
        """Remove everything that was made."""
        self._clean_up.close()
        self.maker.remove_all()


def silent(text: str) -> None:
    del text


def seconds_of(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def run(command: Sequence[str], stdin: str = "", **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def new_project(folder: Path, main: str, number: int = 8) -> Project:
    folder.mkdir()
    program = {
        "name": folder.name if main == "." else "gpuferry",
        "runtime": "python",
        "main": main,
    }
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(program))
    return Project(folder, f"b{os.getpid()}-{number}")
