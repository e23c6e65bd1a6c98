"""Real local nodes, made by the product's own provider.

A node belongs to a stack named after the process that made it, so that what a killed run left
can be told from what a live one uses.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from gpuferry import keys
from gpuferry.converge.play import PlayResult, run_playbook
from gpuferry.inventory import Entry
from gpuferry.nodes.local import disk, machine, network, survey
from gpuferry.nodes.local.docker import docker
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession, wait_for_ssh
from gpuferry.nodes.ssh_failure import SshFailure

# Of tests, of benchmarks, and of images that they bake.
_OWNER = r"(?:[teb](?=\d+-)|bake-)(\d+)(?:-\d+)?"
_STACK = re.compile(_OWNER)
_DISK = re.compile(rf"/gpuferry/local/{_OWNER}/disks/")
# Software emulation boots in half a minute on an idle machine.
_SSH_SECONDS = {"container": 60, "vm": 240}
ROLES = ["base", "ssh_hardening", "firewall", "docker"]


@dataclass
class Node:
    """One real node and what tests do with it."""

    server: Server
    session: SshSession
    network: dict[str, str]
    args: machine.MachineArgs | None = None
    said: list[str] = field(default_factory=list)

    def run(self, script: str, timeout_seconds: float = 120) -> str:
        """Run a script as root; returns stdout, fails on another exit code than 0."""
        done = self.session.run(
            self.server,
            ["sudo", "-n", "bash", "-euo", "pipefail", "-s"],
            stdin=script.encode(),
            timeout_seconds=timeout_seconds,
        )
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        assert done.returncode == 0, f"exit {done.returncode}\n{out}\n{err}"
        return out

    def start_program(self, unit: str, text: str, *words: str) -> None:
        """Start a Python program as a transient unit of this name."""
        path = f"/run/{unit}.py"
        self.run(
            f"cat > {path} <<'END'\n{text}\nEND\n"
            f"systemd-run -q --collect --unit={unit} python3 -I {path} {shlex.join(words)}"
        )

    def variables(self, *roles: str, **variables: Any) -> dict[str, Any]:
        """Role variables that keep this machine's way in open."""
        return {
            "ferry_roles": list(roles or ROLES),
            "firewall_ssh_from": [self.network["subnet4"], self.network["subnet6"]],
            **variables,
        }

    def entry(self, **variables: Any) -> Entry:
        """The node as the inventory of a stack would give it."""
        return Entry(
            server=self.server,
            ssh_wait_seconds=60,
            variables=self.variables(**variables),
            expectations={},
        )

    def play(
        self, *roles: str, check_only: bool = False, playbook: str = "site.yml", **variables: Any
    ) -> PlayResult:
        """Play roles."""
        return run_playbook(
            playbook,
            [self.server],
            {self.server.name: self.variables(*roles, **variables)},
            self.session,
            check_only=check_only,
            say=self.said.append,
        )

    def changed(self, *roles: str, **variables: Any) -> int:
        """Number of changed tasks of a play."""
        return self.play(*roles, **variables).changed(self.server.name)

    def restart(self) -> None:
        """Restart the node, as a reboot would."""
        machine.stop(self.stack, self.server.name)
        machine.start(self.stack, self.server.name)
        wait_for_ssh(self.server, _SSH_SECONDS[self.args.kind if self.args else "container"])

    def reboot(self) -> None:
        """Reboot from inside; returns when another boot of the same server answers."""
        before, deadline = self.boot_id(), time.monotonic() + 2 * _SSH_SECONDS["vm"]
        # A little later, so that this command can still answer.
        self.run(
            "systemd-run -q --on-active=1s --timer-property=AccuracySec=100ms systemctl reboot"
        )
        while True:
            with contextlib.suppress(SshFailure):
                if self.boot_id() not in ("", before):
                    return
            assert time.monotonic() < deadline, f"{self.server.name} did not come back"
            time.sleep(1)

    def boot_id(self) -> str:
        """The running kernel's boot, over a connection of its own."""
        with SshSession([self.server]) as session:
            path = "/proc/sys/kernel/random/boot_id"
            return session.run(self.server, ["cat", path], timeout_seconds=20).stdout.decode()

    def resize(self, **changes: Any) -> dict[str, Any]:
        """Apply other machine arguments to the same machine; returns its outputs."""
        assert self.args is not None
        self.args = self.args.model_copy(update=changes)
        outputs = machine.create(self.args, self.said.append)
        wait_for_ssh(self.server, _SSH_SECONDS[self.args.kind])
        return outputs

    @property
    def stack(self) -> str:
        """The stack that owns the node."""
        return self.network["stack"]


class NodeMaker:
    """Makes nodes, and removes them all."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._nodes: list[Node] = []
        self._stacks: list[str] = []

    def __call__(
        self,
        image: str = "debian-13",
        name: str = "node",
        *,
        extra_disks_gib: tuple[int, ...] = (),
        beside: Node | None = None,
        **more: Any,
    ) -> Node:
        """Make a bare node; `image` is debian-13 or debian-12, `more` goes to the machine.

        A node has a stack and network of its own, unless it is made `beside` another.
        """
        if beside is None:
            self._stacks.append(f"{self._mark}{os.getpid()}-{len(self._stacks) + 1}")
            stack, number = self._stacks[-1], 1
            facts = network.create(stack)
        else:
            stack, facts = beside.stack, beside.network
            number = 1 + sum(node.stack == stack for node in self._nodes)
        host, deploy = keys.ssh_key_pair(""), keys.ssh_key_pair("test")
        args = machine.MachineArgs(
            stack=stack,
            name=name,
            image=image,
            cpus=2,
            memory_gib=2,
            host_number=disk.create(stack, name, number, extra_disks_gib)["host_number"],
            extra_disks=len(extra_disks_gib),
            subnet4=facts["subnet4"],
            subnet6=facts["subnet6"],
            host_private_key=host["private"],
            host_public_key=host["public"],
            authorized_key=deploy["public"],
            **more,
        )
        made = machine.create(args, lambda text: None)
        server = Server(name=name, private_key=SecretStr(deploy["private"]), **made)
        wait_for_ssh(server, _SSH_SECONDS[args.kind])
        session = SshSession([server])
        session.__enter__()
        self._nodes.append(Node(server, session, {**facts, "stack": stack}, args))
        return self._nodes[-1]

    def remove_all(self) -> None:
        """Remove every node that was made, also half-made ones."""
        for node in self._nodes:
            node.session.__exit__(None, None, None)
        for stack in self._stacks:
            survey.sweep(stack)


@contextlib.contextmanager
def own_turn() -> Iterator[None]:
    """For what test processes side by side must not do at the same time."""
    with open(Path(tempfile.gettempdir()) / "gpuferry-tests.lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def sweep_dead_runs() -> None:
    """Remove what killed test runs left."""
    with own_turn():
        _sweep_dead_runs()


def _unmount_dead_disks() -> None:
    """By the mount table: pytest may have moved the folder of a killed run since."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        where = line.split()[1]
        owner = _DISK.search(where)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            subprocess.run(["umount", where], check=False)


def _sweep_dead_runs() -> None:
    labels = '{{.Label "gpuferry.stack"}} {{.Label "gpuferry.root"}}'
    listed = docker("ps", "-a", "--format", labels) + docker("network", "ls", "--format", labels)
    for line in set(listed.splitlines()):
        stack, _, root = line.partition(" ")
        owner = _STACK.fullmatch(stack)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            before = os.environ.get("XDG_DATA_HOME")
            os.environ["XDG_DATA_HOME"] = str(Path(root).parent)
            survey.sweep(stack)
            os.environ.pop("XDG_DATA_HOME")
            if before is not None:
                os.environ["XDG_DATA_HOME"] = before
    _unmount_dead_disks()
