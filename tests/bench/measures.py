"""The measures, and the peers they are taken against."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from gpuferry.converge.play import run_playbook
from gpuferry.converge.run import converge
from gpuferry.engine import find
from gpuferry.engine.project import Project
from gpuferry.paths import REPOSITORY
from tests.bench import state
from tests.support.node import Node, NodeMaker

_PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Pair:
    """Two series of seconds, taken in turn, and the aim for their ratio."""

    name: str
    ours: Sequence[float]
    peer: str
    peers: Sequence[float]
    at_most: float
    seconds: float | None = None


class Bench:
    """What the measures share: nodes, a folder, the number of runs."""

    def __init__(self, folder: Path, runs: int) -> None:
        self.folder = folder
        self.runs = runs
        self._maker = NodeMaker("b")
        self._converged: list[Node] = []
        self._clean_up = contextlib.ExitStack()

    def bare(self) -> Node:
        """A new node with nothing on it."""
        return self._maker(name=f"node{len(self._converged) + 1}")

    def converged(self, count: int) -> list[Node]:
        """So many nodes in their declared state; made once, side by side."""
        new = []
        while len(self._converged) < count:
            new.append(self._maker(name=f"node{len(self._converged) + 1}"))
            self._converged.append(new[-1])
        if new:
            converge([node.entry() for node in new], say=_silent)
        return self._converged[:count]

    def in_turn(self, *sides: Callable[[], None]) -> list[list[float]]:
        """Run the sides A B A B … after one warm-up each; seconds by side."""
        for side in sides:
            side()
        series: list[list[float]] = [[] for _ in sides]
        for _ in range(self.runs):
            for index, side in enumerate(sides):
                series[index].append(_seconds(side))
        return series

    def defer(self, work: Callable[[], None]) -> None:
        """Do this at the end, whatever happens."""
        self._clean_up.callback(work)

    def close(self) -> None:
        """Remove everything that was made."""
        self._clean_up.close()
        self._maker.remove_all()


def _silent(text: str) -> None:
    del text


def _seconds(work: Callable[[], None]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _run(command: Sequence[str], **environment: str) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def no_change_converge(bench: Bench) -> list[Pair]:
    """Converge with nothing to change: ours, pyinfra, plain ansible-playbook."""
    (node,) = bench.converged(1)
    folder = bench.folder / "state"
    folder.mkdir()
    declared = state.read(node, folder)
    inventory = folder / "inventory.py"
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(f"{node.server.address} {node.server.host_key}\n")
    connection = {
        "ssh_user": node.server.user,
        "ssh_key": str(node.session.key_path(node.server)),
        "ssh_known_hosts_file": str(known_hosts),
        "ssh_strict_host_key_checking": "yes",
    }
    inventory.write_text(f"servers = [({node.server.address!r}, {connection!r})]\n")
    pyinfra = [str(state.peer_environment() / "pyinfra"), "-y", str(inventory)]
    pyinfra.append(str(_PEERS / "pyinfra_deploy.py"))

    def ours() -> None:
        code = (
            "import sys; from gpuferry.inventory import Entry;"
            "from gpuferry.converge.run import converge;"
            "e = Entry.model_validate_json(sys.stdin.read());"
            "(r,) = converge([e], say=lambda t: None); assert r.changed == 0 and not r.played, r"
        )
        _with_stdin([sys.executable, "-c", code], _entry_json(node))

    def theirs() -> None:
        _run(pyinfra, BENCH_STATE=str(declared.folder))

    def ansible() -> None:
        result = run_playbook(
            "site.yml",
            [node.server],
            {node.server.name: node.variables()},
            node.session,
            say=_silent,
            accelerated=False,
        )
        assert result.changed(node.server.name) == 0

    seconds = bench.in_turn(ours, theirs, ansible)
    return [
        Pair("no-change converge", seconds[0], "pyinfra, same state", seconds[1], 0.5, 3.0),
        Pair(
            "no-change converge", seconds[0], "ansible-playbook, same roles", seconds[2], 0.5, 3.0
        ),
    ]


def _entry_json(node: Node) -> str:
    entry = node.entry()
    raw = entry.model_dump_json()
    return raw.replace('"**********"', json.dumps(node.server.private_key.get_secret_value()))


def _with_stdin(command: Sequence[str], text: str) -> None:
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])


def first_converge(bench: Bench) -> list[Pair]:
    """Converge a bare node: ours against the same by hand in one shell script."""
    (reference,) = bench.converged(1)
    folder = bench.folder / "by-hand"
    folder.mkdir()
    declared = state.read(reference, folder)
    tarball = folder / "state.tar"
    tarball.write_bytes(state.tarball(reference, declared))
    ours, peers = [], []
    # Each run needs two fresh nodes, so one warm-up for both (the first converged node) is enough.
    for _ in range(max(1, min(bench.runs, 3))):
        node = bench.bare()
        ours.append(_seconds(lambda node=node: _first(node)))  # type: ignore[misc]
        node = bench.bare()
        peers.append(_seconds(lambda node=node: _by_hand(node, tarball, declared.packages)))  # type: ignore[misc]
    return [Pair("first converge of a bare node", ours, "shell script by hand", peers, 1.2)]


def _first(node: Node) -> None:
    (result,) = converge([node.entry()], say=_silent)
    assert result.changed > 0


def _by_hand(node: Node, tarball: Path, packages: list[str]) -> None:
    config, name = str(node.session.config_path), node.server.name
    script = str(_PEERS / "by_hand.sh")
    _run(["scp", "-q", "-F", config, str(tarball), script, f"{name}:/tmp/"])
    remote = f"sudo bash /tmp/by_hand.sh /tmp/{tarball.name} {' '.join(packages)}"
    _run(["ssh", "-F", config, name, "--", remote])


def no_change_up(bench: Bench) -> list[Pair]:
    """`pulumi up` with nothing to change: the stack against an empty program, same engine."""
    engine = find.ensure(_silent)
    ours = _project(bench.folder / "stack", str(REPOSITORY / "infra"))
    ours.stack_file.write_text(
        yaml.safe_dump(
            {
                "config": {
                    "gpuferry:servers": [{"name": "gpu-1", "cpus": 1, "memory_gib": 1}],
                    "gpuferry:object_stores": [{"name": "datasets"}],
                }
            }
        )
    )
    empty = _project(bench.folder / "empty", ".")
    (empty.directory / "__main__.py").write_text('"""Declares nothing."""\n')
    empty.stack_file.write_text("config: {}\n")
    ferry = [str(REPOSITORY / "ferry")]
    options = ["--stack", ours.stack, "-C", str(ours.directory)]
    bench.defer(lambda: _run([*ferry, "down", "--yes", *options]))
    _run([*ferry, "up", *options])
    environment = find.environment(engine, empty)
    _run(
        [str(engine.path), "stack", "init", empty.stack, "-C", str(empty.directory)], **environment
    )

    def up(project: Project) -> Callable[[], None]:
        command = [str(engine.path), "up", "--yes", "--skip-preview", "--non-interactive"]
        command += ["--stack", project.stack, "-C", str(project.directory)]
        return lambda: _run(command, **environment)

    def through_ferry() -> None:
        _run([*ferry, "up", *options])

    seconds = bench.in_turn(up(ours), up(empty), through_ferry)
    return [
        Pair("pulumi up, nothing to change", seconds[0], "empty program", seconds[1], 1.5),
        Pair(
            "ferry up, nothing to change",
            seconds[2],
            "pulumi up on an empty program",
            seconds[1],
            2.5,
        ),
    ]


def _project(folder: Path, main: str) -> Project:
    folder.mkdir()
    program = {
        "name": folder.name if main == "." else "gpuferry",
        "runtime": "python",
        "main": main,
    }
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(program))
    return Project(folder, f"b{os.getpid()}-{'9' if main == '.' else '8'}")


def scale(bench: Bench) -> list[Pair]:
    """No-change converge of 1, 2, 4 and 8 nodes."""
    counts = (1, 2, 4, 8)
    nodes = bench.converged(max(counts))

    def side(count: int) -> Callable[[], None]:
        def work() -> None:
            results = converge([node.entry() for node in nodes[:count]], say=_silent)
            assert all(r.changed == 0 and not r.played for r in results), results

        return work

    seconds = bench.in_turn(*(side(count) for count in counts))
    aims = {2: 3.0, 4: 3.0, 8: 3.0}
    return [
        Pair(f"no-change converge of {count} nodes", series, "of one node", seconds[0], aims[count])
        for count, series in zip(counts[1:], seconds[1:], strict=True)
    ]


MEASURES: dict[str, Callable[[Bench], list[Pair]]] = {
    "converge": no_change_converge,
    "first-converge": first_converge,
    "up": no_change_up,
    "scale": scale,
}
