"""OpenSSH sessions with pinned host keys: the one way in which this project reaches servers."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from gpuferry.nodes.private_dir import private_directory
from gpuferry.nodes.server import Server
from gpuferry.nodes.ssh_failure import SshFailure, explain

# How long an idle shared connection stays; a killed run leaves its connection no longer than this.
_PERSIST_SECONDS = 60

# `%` and `~` would be expanded by ssh; all values are written by us and validated by the spec.
_HOST_BLOCK = """\
Host {name}
  HostName {address}
  Port {port}
  User {user}
  HostKeyAlias {name}
  IdentityFile {directory}/{index}.key
  ControlPath {directory}/{index}.mux
"""
_DEFAULTS = """\
Host *
  BatchMode yes
  ConnectTimeout {connect_timeout_seconds}
  ConnectionAttempts 1
  ControlMaster auto
  ControlPersist {persist_seconds}
  ForwardAgent no
  GlobalKnownHostsFile /dev/null
  HostKeyAlgorithms ssh-ed25519
  IdentitiesOnly yes
  IdentityAgent none
  LogLevel ERROR
  PasswordAuthentication no
  KbdInteractiveAuthentication no
  PreferredAuthentications publickey
  ServerAliveCountMax 3
  ServerAliveInterval 10
  StrictHostKeyChecking yes
  UpdateHostKeys no
  UserKnownHostsFile {directory}/known_hosts
"""


class SshSession:
    """An ssh configuration for some servers, for as long as the `with` block lasts.

    Every program that takes an OpenSSH configuration can use `config_path` (ssh, scp, rsync,
    Ansible, testinfra); the servers go by their names in it. Connections are shared, so the first
    command pays for the handshake. Keys lie in a private directory, never in an argument.
    """

    def __init__(self, servers: Iterable[Server], *, connect_timeout_seconds: int = 10) -> None:
        self._servers = {server.name: server for server in servers}
        self._connect_timeout_seconds = connect_timeout_seconds
        self._stack = contextlib.ExitStack()
        self._directory: Path | None = None

    def __enter__(self) -> Self:
        self._directory = self._stack.enter_context(private_directory())
        self._stack.callback(self._close_connections)
        self._write_files()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    @property
    def directory(self) -> Path:
        """The private directory; callers may keep their own secrets of this run in it."""
        if self._directory is None:
            raise RuntimeError("SshSession is used outside its `with` block")
        return self._directory

    @property
    def config_path(self) -> Path:
        """The OpenSSH configuration file (`ssh -F`)."""
        return self.directory / "config"

    def key_path(self, server: Server) -> Path:
        """The file with the private key for one server."""
        return self.directory / f"{self._index(server)}.key"

    def run(
        self,
        server: Server,
        command: Sequence[str] | str,
        *,
        stdin: bytes = b"",
        timeout_seconds: float = 60,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command (argument list, or a script for the login shell) on a server.

        Returns whatever exit code the command had. Raises `SshFailure` when the server could not
        be reached, or the command did not end within `timeout_seconds`.
        """
        script = command if isinstance(command, str) else shlex.join(command)
        argv = ["ssh", "-F", str(self.config_path), "-T", server.name, "--", script]
        try:
            done = subprocess.run(
                argv,
                check=False,
                input=stdin,
                capture_output=True,
                timeout=timeout_seconds,
                env=_c_locale(),
            )
        except subprocess.TimeoutExpired:
            raise SshFailure(
                server,
                "timeout",
                f"{server.name}: the command {script.split(maxsplit=1)[0]!r} did not end within "
                f"{timeout_seconds:.0f} s",
            ) from None
        # 255 is ssh's own failure, or the command's exit code: a live connection tells which.
        if done.returncode == 255 and not self._is_connected(server):
            raise explain(server, done.stderr.decode(errors="replace"))
        return done

    def _write_files(self) -> None:
        blocks = []
        for server in self._servers.values():
            index = self._index(server)
            blocks.append(
                _HOST_BLOCK.format(**_fields(server), directory=self.directory, index=index)
            )
            self._write(f"{index}.key", server.private_key.get_secret_value().rstrip("\n") + "\n")
        defaults = _DEFAULTS.format(
            connect_timeout_seconds=self._connect_timeout_seconds,
            persist_seconds=_PERSIST_SECONDS,
            directory=self.directory,
        )
        self._write("config", "".join(blocks) + defaults)
        lines = (server.known_hosts_line + "\n" for server in self._servers.values())
        self._write("known_hosts", "".join(lines))

    def _write(self, name: str, text: str) -> None:
        descriptor = os.open(self.directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)

    def _index(self, server: Server) -> int:
        # File names carry a number, not the name: socket paths are limited to about 100 characters.
        return list(self._servers).index(server.name)

    def _control(self, server: Server, action: str) -> bool:
        argv = ["ssh", "-F", str(self.config_path), "-O", action, server.name]
        done = subprocess.run(argv, check=False, capture_output=True, timeout=10)
        return done.returncode == 0

    def _is_connected(self, server: Server) -> bool:
        return self._control(server, "check")

    def _close_connections(self) -> None:
        for server in self._servers.values():
            if (self.directory / f"{self._index(server)}.mux").exists():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._control(server, "exit")


def wait_for_ssh(
    server: Server,
    deadline_seconds: float,
    *,
    on_progress: Callable[[str], None] = lambda text: None,
    pause_seconds: float = 1.0,
) -> float:
    """Wait until a server lets its user in; return the seconds that took.

    A server that refuses, stays silent or hangs up is tried again until the deadline. A wrong host
    key, a refused login or an unknown name is raised at once: waiting does not cure those.
    """
    started = time.monotonic()
    attempt = 0
    while True:
        attempt += 1
        left = deadline_seconds - (time.monotonic() - started)
        connect_seconds = max(1, min(10, int(left)))
        try:
            with SshSession([server], connect_timeout_seconds=connect_seconds) as session:
                session.run(server, "true", timeout_seconds=connect_seconds + 5)
            return time.monotonic() - started
        except SshFailure as failure:
            waited = time.monotonic() - started
            if not failure.retryable:
                raise
            if waited + pause_seconds >= deadline_seconds:
                raise SshFailure(
                    server,
                    failure.reason,
                    f"gave up after {waited:.0f} s (deadline {deadline_seconds:.0f} s, "
                    f"{attempt} attempts). Last answer: {failure}",
                ) from None
            on_progress(
                f"{server.name}: waiting for SSH, {waited:.0f} of {deadline_seconds:.0f} s "
                f"({failure.reason})"
            )
            time.sleep(pause_seconds)


def _fields(server: Server) -> dict[str, str]:
    return {
        "name": server.name,
        "address": server.address,
        "port": str(server.port),
        "user": server.user,
    }


def _c_locale() -> dict[str, str]:
    # ssh's messages contain the system's error texts, and these are classified by their words.
    return {**os.environ, "LC_ALL": "C"}
