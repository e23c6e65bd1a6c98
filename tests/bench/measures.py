"""The measures, and the peers they are taken against."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from gpuferry.audit.choose.plan import make_plan
from gpuferry.audit.offers.load import load_offers
from gpuferry.audit.read.inventory import read_inventory
from gpuferry.converge.play import run_playbook
from gpuferry.converge.run import converge
from gpuferry.engine import find
from gpuferry.engine.project import Project
from gpuferry.inventory import Entry
from gpuferry.paths import REPOSITORY
from tests.bench import agent, alerts, audit_tables, state
from tests.bench.bench import (
    FERRY,
    SERVER,
    Bench,
    Pair,
    new_project,
    run,
    seconds_of,
    silent,
)
from tests.support.node import Node

_PEERS = Path(__file__).parent / "peers"


def no_change_converge(bench: Bench) -> list[Pair]:
    """Converge with nothing to change: the whole command, pyinfra, plain ansible-playbook."""
    options, entry, session = bench.deployed()
    node = Node(entry.server, session, {})
    folder = bench.folder / "state"
    folder.mkdir()
    declared = state.read(node, folder, entry.variables["ferry_roles"])
    hosts = folder / "hosts.py"
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(f"{node.server.address} {node.server.host_key}\n")
    connection = {
        "ssh_user": node.server.user,
        "ssh_key": str(session.key_path(node.server)),
        "ssh_known_hosts_file": str(known_hosts),
        "ssh_strict_host_key_checking": "yes",
    }
    hosts.write_text(f"servers = [({node.server.address!r}, {connection!r})]\n")
    pyinfra = [str(state.peer_environment() / "pyinfra"), "-y", str(hosts)]
    pyinfra.append(str(_PEERS / "pyinfra_deploy.py"))

    def ours() -> None:
        answer = json.loads(run([*FERRY, "converge", "--json", *options]))
        (server,) = answer["servers"]
        assert (server["changed"], server["played"]) == (0, []), server

    def theirs() -> None:
        run(pyinfra, BENCH_STATE=str(declared.folder))

    def ansible() -> None:
        result = run_playbook(
            "site.yml",
            [node.server],
            {node.server.name: entry.variables},
            session,
            say=silent,
            accelerated=False,
        )
        assert result.changed(node.server.name) == 0

    seconds = bench.in_turn(ours, theirs, ansible)
    name = "ferry converge, nothing to change"
    return [
        Pair(name, seconds[0], "pyinfra, same state", seconds[1], 0.5, 3.0),
        Pair(name, seconds[0], "ansible-playbook, same roles", seconds[2], 0.5, 3.0),
    ]


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
        ours.append(seconds_of(lambda node=node: _first(node)))  # type: ignore[misc]
        node = bench.bare()
        peers.append(seconds_of(lambda node=node: _by_hand(node, tarball, declared.packages)))  # type: ignore[misc]
    return [Pair("first converge of a bare node", ours, "shell script by hand", peers, 1.2)]


def _first(node: Node) -> None:
    # Of what a stack has the first role fetch for later ones, what belongs to these roles.
    entry = node.entry(base_packages_ahead=["netbase", "nftables"])
    (result,) = converge([entry], say=silent)
    assert result.changed > 0


def _by_hand(node: Node, tarball: Path, packages: list[str]) -> None:
    config, name = str(node.session.config_path), node.server.name
    script = str(_PEERS / "by_hand.sh")
    run(["scp", "-q", "-F", config, str(tarball), script, f"{name}:/tmp/"])
    remote = f"sudo bash /tmp/by_hand.sh /tmp/{tarball.name} {' '.join(packages)}"
    run(["ssh", "-F", config, name, "--", remote])


def no_change_up(bench: Bench) -> list[Pair]:
    """`pulumi up` with nothing to change: the stack against an empty program, same engine."""
    engine = find.ensure(silent)
    options, _, _ = bench.deployed()
    ours = bench.project
    empty = new_project(bench.folder / "empty", ".", 9)
    (empty.directory / "__main__.py").write_text('"""Declares nothing."""\n')
    empty.stack_file.write_text("config: {}\n")
    environment = find.environment(engine, empty)
    run([str(engine.path), "stack", "init", empty.stack, "-C", str(empty.directory)], **environment)

    def up(project: Project) -> Callable[[], None]:
        command = [str(engine.path), "up", "--yes", "--skip-preview", "--non-interactive"]
        command += ["--stack", project.stack, "-C", str(project.directory)]

        def work() -> None:
            run(command, **environment)

        return work

    def through_ferry() -> None:
        run([*FERRY, "up", *options])

    seconds = bench.in_turn(up(ours), up(empty), through_ferry)
    return [
        Pair("pulumi up, nothing to change", seconds[0], "empty program", seconds[1], 1.5),
        Pair(
            "ferry up, nothing to change",
            seconds[2],
            "pulumi up on an empty program",
            seconds[1],
            None,
        ),
    ]


def _plain(entry: Entry) -> dict[str, Any]:
    raw = entry.model_dump()
    raw["server"]["private_key"] = entry.server.private_key.get_secret_value()
    return raw


# A process of its own, as a person's is: what it takes to start is part of the wall time.
_CONVERGE = """
import json, sys
from gpuferry.converge.run import converge
from gpuferry.inventory import Entry
entries = [Entry.model_validate(raw) for raw in json.load(sys.stdin)]
results = converge(entries, say=lambda text: None)
assert all(r.changed == 0 and not r.played for r in results), results
"""


def scale(bench: Bench) -> list[Pair]:
    """No-change converge of 1, 2, 4 and 8 nodes."""
    counts = (1, 2, 4, 8)
    nodes = bench.converged(max(counts))

    def side(count: int) -> Callable[[], None]:
        entries = json.dumps([_plain(node.entry()) for node in nodes[:count]])

        def work() -> None:
            run([sys.executable, "-c", _CONVERGE], stdin=entries)

        return work

    seconds = bench.in_turn(*(side(count) for count in counts))
    aims = {2: 3.0, 4: 3.0, 8: 3.0}
    return [
        Pair(f"no-change converge of {count} nodes", series, "of one node", seconds[0], aims[count])
        for count, series in zip(counts[1:], seconds[1:], strict=True)
    ]


def checks(bench: Bench) -> list[Pair]:
    """All checks of one server, against one login on it."""
    options, entry, session = bench.deployed()

    def ours() -> None:
        answer = json.loads(run([*FERRY, "check", "--json", *options]))
        assert answer["ok"], answer

    def login() -> None:
        run(["ssh", "-F", str(session.config_path), entry.server.name, "true"])

    seconds = bench.in_turn(ours, login)
    return [Pair("ferry check, one server", seconds[0], "ssh true", seconds[1], None, 5.0)]


def baked(bench: Bench) -> list[Pair]:
    """`ferry up` of a new stack: from the baked image against the bare one."""
    project = new_project(bench.folder / "baked", str(REPOSITORY / "infra"), 7)
    options = ["--stack", project.stack, "-C", str(project.directory)]

    def declare(*, baked: bool) -> None:
        servers = [{**SERVER, "baked": baked}]
        config = {"gpuferry:servers": servers, "gpuferry:object_stores": [{"name": "datasets"}]}
        project.stack_file.write_text(yaml.safe_dump({"config": config}))

    def up(*, baked: bool) -> float:
        declare(baked=baked)
        try:
            return seconds_of(lambda: run([*FERRY, "up", *options]))
        finally:
            run([*FERRY, "down", "--yes", *options])

    declare(baked=True)
    run([*FERRY, "image", "build", "node", *options])
    runs = range(min(bench.runs, 3))
    series = [(up(baked=True), up(baked=False)) for _ in runs]
    ours, bare = ([pair[side] for pair in series] for side in (0, 1))
    return [Pair("ferry up from the baked image", ours, "from the bare image", bare, 0.2, 20.0)]


def audit(bench: Bench) -> list[Pair]:
    """A table of 10,000 workloads, the whole catalogue and 500 offers; against reading it alone."""
    table, offers = bench.folder / "workloads.csv", bench.folder / "offers.csv"
    audit_tables.write_workloads(table, 10_000)
    audit_tables.write_offers(offers, 500)

    def reading() -> None:
        assert len(read_inventory(table)) == 10_000

    def planning() -> None:
        plan = make_plan(read_inventory(table), load_offers(offers))
        assert len(plan.decisions) == 10_000

    seconds = bench.in_turn(planning, reading)
    return [
        Pair("audit of 10,000 workloads", seconds[0], "reading the table", seconds[1], None, 5.0)
    ]


def node_agent(bench: Bench) -> list[Pair]:
    """Eight simulated GPUs watched at 1 s for a minute, scrapes in turn with the peer's."""
    runs = [agent.measure() for _ in range(min(bench.runs, 3))]
    peer = "nvitop-exporter, same GPUs, same minute"

    def pair(name: str, key: str, aim: float | None, unit: str, factor: float = 1) -> Pair:
        ours, theirs = ([factor * getattr(run[side], key) for run in runs] for side in (0, 1))
        return Pair(f"agent, {name}", ours, peer, theirs, 1.0, aim, unit)

    return [
        pair("share of a core", "cpu_share", 1.0, "%", 100),
        pair("resident memory", "resident_mib", 50 * 1e6 / (1 << 20), "MiB"),
        pair("the same, shared pages once", "proportional_mib", None, "MiB"),
        pair("scrape, median", "p50_ms", None, "ms"),
        pair("scrape, 99th percentile", "p99_ms", 10.0, "ms"),
    ]


def logs(bench: Bench) -> list[Pair]:
    """5,000 lines a second for a minute; every line has to arrive once."""
    runs = [bench.log_shipping(number) for number in range(min(bench.runs, 3))]
    peer = "systemd-journal-upload, same lines, to loopback without TLS"
    shares = [[100 * getattr(run, side) for run in runs] for side in ("ours", "peers")]
    return [Pair("log shipping, share of a core", shares[0], peer, shares[1], unit="%")]


def alerting(bench: Bench) -> list[Pair]:
    """A fault of a simulated GPU until a webhook is told, as shipped."""
    found = alerts.measure(bench.maker)
    return [
        Pair(f"{name} to webhook", seconds, "the aim", [15.0] * len(seconds), 1.0, 15.0)
        for name, seconds in found.items()
    ]


# Measures without servers.
NEED_NOTHING = {"audit", "agent"}
MEASURES: dict[str, Callable[[Bench], list[Pair]]] = {
    "converge": no_change_converge,
    "first-converge": first_converge,
    "up": no_change_up,
    "scale": scale,
    "checks": checks,
    "baked": baked,
    "audit": audit,
    "agent": node_agent,
    "logs": logs,
    "alerts": alerting,
}
