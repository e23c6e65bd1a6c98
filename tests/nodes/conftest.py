"""Real local nodes for tests: made by the product's own provider, swept whatever happens.

A node belongs to a stack named after the process that made it, so that what a killed run left
can be told from what a live one uses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuferry import keys
from gpuferry.converge.play import PlayResult, run_playbook
from gpuferry.nodes.local import disk, machine, network, survey
from gpuferry.nodes.local.docker import docker
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession, wait_for_ssh

_STACK = re.compile(r"t(\d+)-\d+")


@dataclass
class Node:
    """One real node and what tests do with it."""

    server: Server
    session: SshSession
    network: dict[str, str]
    said: list[str] = field(default_factory=list)

    def run(self, script: str, timeout_seconds: float = 120) -> str:
        """Run a script as root; returns stdout, fails the test on another exit code than 0."""
        done = self.session.run(
            self.server,
            ["sudo", "-n", "bash", "-euo", "pipefail", "-s"],
            stdin=script.encode(),
            timeout_seconds=timeout_seconds,
        )
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        assert done.returncode == 0, f"exit {done.returncode}\n{out}\n{err}"
        return out

    def play(
        self, *roles: str, check_only: bool = False, playbook: str = "site.yml", **variables: Any
    ) -> PlayResult:
        """Play roles with the variables that keep this machine's way in open."""
        return run_playbook(
            playbook,
            [self.server],
            {
                self.server.name: {
                    "ferry_roles": list(roles),
                    "firewall_ssh_from": [self.network["subnet4"], self.network["subnet6"]],
                    **variables,
                }
            },
            self.session,
            check_only=check_only,
            say=self.said.append,
        )

    def changed(self, *roles: str, **variables: Any) -> int:
        """Number of changed tasks of a play."""
        return self.play(*roles, **variables).changed(self.server.name)

    def restart(self) -> None:
        """Restart the node, as a reboot would."""
        stack, name = self.stack, self.server.name
        machine.stop(stack, name)
        machine.start(stack, name)
        wait_for_ssh(self.server, 60)

    @property
    def stack(self) -> str:
        """The stack that owns the node."""
        return self.network["stack"]


@pytest.fixture(scope="session", autouse=True)
def _swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep test nodes' disks apart from the user's, and remove what killed runs left."""
    before = os.environ.get("XDG_DATA_HOME")
    os.environ["XDG_DATA_HOME"] = str(tmp_path_factory.mktemp("data"))
    labels = docker("ps", "-a", "--format", '{{.Label "gpuferry.stack"}}').split()
    labels += docker("network", "ls", "--format", '{{.Label "gpuferry.stack"}}').split()
    for stack in set(labels):
        owner = _STACK.fullmatch(stack)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            survey.sweep(stack)
    yield
    if before is None:
        del os.environ["XDG_DATA_HOME"]
    else:
        os.environ["XDG_DATA_HOME"] = before


NewNode = Callable[..., Node]


@pytest.fixture(scope="module")
def new_node() -> Iterator[NewNode]:
    """Return a function that makes a bare node; `image` is debian-13 or debian-12."""
    stacks: list[str] = []
    sessions: list[SshSession] = []

    def make(image: str = "debian-13", name: str = "node") -> Node:
        stack = f"t{os.getpid()}-{len(stacks) + 1}"
        stacks.append(stack)
        facts = network.create(stack)
        host, deploy = keys.ssh_key_pair(""), keys.ssh_key_pair("test")
        args = machine.MachineArgs(
            stack=stack,
            name=name,
            image=image,
            cpus=2,
            memory_gib=2,
            host_number=disk.create(stack, name, 1)["host_number"],
            subnet4=facts["subnet4"],
            subnet6=facts["subnet6"],
            host_private_key=host["private"],
            host_public_key=host["public"],
            authorized_key=deploy["public"],
        )
        made = machine.create(args, lambda text: None)
        server = Server(name=name, private_key=deploy["private"], **made)
        wait_for_ssh(server, 60)
        session = SshSession([server])
        session.__enter__()
        sessions.append(session)
        return Node(server, session, {**facts, "stack": stack})

    try:
        yield make
    finally:
        for session in sessions:
            session.__exit__(None, None, None)
        for stack in stacks:
            survey.sweep(stack)
