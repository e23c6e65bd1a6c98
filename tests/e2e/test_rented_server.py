"""The provider ssh against a server that was there before: reached, converged, never removed."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuferry import keys
from gpuferry.nodes.local import disk, machine, network, survey
from gpuferry.nodes.local.docker import docker

from .conftest import NewStack, Stack


class Rented:
    """A container that stands in for a server rented elsewhere; its user is `ferry`."""

    def __init__(self, folder: Path) -> None:
        self.stack = f"e{os.getpid()}-99"
        self.network = network.create(self.stack)
        self.host, deploy = keys.ssh_key_pair(""), keys.ssh_key_pair("rented")
        self.key = folder / "id_ed25519"
        self.key.touch(mode=0o600)
        self.key.write_text(deploy["private"])
        args = machine.MachineArgs(
            stack=self.stack,
            name="rented",
            image="debian-12",
            cpus=1,
            memory_gib=1,
            host_number=disk.create(self.stack, "rented", 1)["host_number"],
            subnet4=self.network["subnet4"],
            subnet6=self.network["subnet6"],
            host_private_key=self.host["private"],
            host_public_key=self.host["public"],
            authorized_key=deploy["public"],
        )
        self.address = machine.create(args, lambda text: None)["address"]
        self.container = machine.container_name(self.stack, "rented")

    def access(self, **changes: Any) -> dict[str, Any]:
        """The `ssh` entry of the spec."""
        entry = {
            "address": self.address,
            "user": "ferry",
            "host_key": self.host["public"],
            "key_file": str(self.key),
        }
        return entry | changes

    def execute(self, *command: str) -> str:
        """Run a command as if on the server's console.

        `docker exec` fails once a Docker engine runs inside a node on a hybrid cgroup host.
        """
        pid = docker("inspect", "--format", "{{.State.Pid}}", self.container).strip()
        entered = ["nsenter", "-t", pid, "-m", "-u", "-i", "-n", "-p", "--", *command]
        done = subprocess.run(entered, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def rented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rented]:
    folder = tmp_path_factory.mktemp("rented")
    os.environ["XDG_DATA_HOME"] = str(folder / "data")
    server = Rented(folder)
    try:
        yield server
    finally:
        survey.sweep(server.stack)
        del os.environ["XDG_DATA_HOME"]


@pytest.fixture(scope="module")
def stack(new_stack: NewStack, rented: Rented) -> Stack:
    return new_stack()


def declare(stack: Stack, rented: Rented, wait: int = 20, **access: Any) -> None:
    stack.declare(
        provider="ssh",
        servers=[{"name": "rented", "ssh": rented.access(**access)}],
        firewall={"ssh_from": [rented.network["subnet4"], rented.network["subnet6"]]},
        ssh_wait_seconds=wait,
    )


def test_a_wrong_host_key_is_refused_with_both_fingerprints(stack: Stack, rented: Rented) -> None:
    declare(stack, rented, host_key=keys.ssh_key_pair("")["public"])
    said = stack.ferry("up", code=1).stderr
    assert "wrong host key" in said
    assert said.count("SHA256:") == 2
    assert "Nothing was sent to it." in said


def test_a_wrong_login_key_is_refused_at_once(stack: Stack, rented: Rented, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch(mode=0o600)
    other.write_text(keys.ssh_key_pair("")["private"])
    declare(stack, rented, wait=300, key_file=str(other))
    started = time.monotonic()
    assert "refused the login of 'ferry'" in stack.ferry("up", code=1).stderr
    assert time.monotonic() - started < 60


def test_a_server_that_never_answers_fails_at_the_deadline(stack: Stack, rented: Rented) -> None:
    declare(stack, rented, wait=6, port=2222)
    started = time.monotonic()
    said = stack.ferry("up", code=1).stderr
    assert "deadline 6 s" in said
    assert time.monotonic() - started < 90  # the deadline and what a busy machine adds


def test_a_server_whose_ssh_comes_late_is_waited_for_and_converged(
    stack: Stack, rented: Rented
) -> None:
    rented.execute("systemctl", "stop", "ssh")
    late = threading.Timer(15, lambda: rented.execute("systemctl", "start", "ssh"))
    late.start()
    declare(stack, rented, wait=90)
    said = stack.ferry("up").stderr
    late.join()
    assert "waiting for SSH" in said
    assert set(stack.json("up")["changes"]) == {"same"}
    stack.ferry("check")


def test_a_user_who_lost_sudo_is_told_what_to_do(stack: Stack, rented: Rented) -> None:
    rented.execute("mv", "/etc/sudoers.d/90-provider", "/root/90-provider")
    said = stack.ferry("converge", code=1).stderr
    assert "cannot use sudo without a password" in said
    rented.execute("mv", "/root/90-provider", "/etc/sudoers.d/90-provider")
    stack.ferry("converge")


def test_rebuilding_a_rented_server_is_left_to_its_owner(stack: Stack) -> None:
    assert "reinstall it with its provider" in stack.ferry("rebuild", "rented", code=2).stderr


def test_down_leaves_a_rented_server_as_it_is(stack: Stack, rented: Rented) -> None:
    stack.ferry("down", "--yes")
    assert rented.execute("systemctl", "is-active", "docker", "ssh").split() == ["active"] * 2
    listed = subprocess.run(["docker", "ps"], capture_output=True, text=True, check=True).stdout
    assert rented.container in listed
