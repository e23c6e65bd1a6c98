"""testinfra's connection to a server: shared, pinned, and never waiting for ever."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

from testinfra.backend.base import BaseBackend, CommandResult


class PinnedBackend(BaseBackend):  # type: ignore[misc]  # testinfra has no types
    """Runs commands over a prepared ssh configuration, or on this machine when there is none.

    testinfra's own ssh backend goes through a local shell, cannot feed stdin and waits without an
    end. Here the command runs under `timeout` on the server, so nothing stays behind there, and an
    exception in this process (the check's deadline) ends and reaps the local client.
    """

    NAME = "pinned"

    def __init__(self, server: str, ssh_config: Path | None, *, sudo: bool) -> None:
        super().__init__(server, sudo=sudo)
        self._prefix = ["/bin/sh", "-c"]
        if ssh_config:
            self._prefix = ["ssh", "-F", str(ssh_config), "-T", server, "--"]
        self.timeout_seconds = 20

    def run(self, command: str, *args: str, **kwargs: Any) -> CommandResult:
        """Run a command with `%s` arguments; `stdin=` takes bytes.

        `seconds=` stands in for the check's deadline where nothing else bounds the command.
        """
        seconds = kwargs.get("seconds") or self.timeout_seconds
        script = shlex.quote(self.quote(command, *args))
        # One second later than the check's own deadline, which gives the better message.
        bounded = f"timeout -k 1 {seconds + 1} /bin/sh -c {script}"
        if self.sudo:
            bounded = self.get_sudo_command(bounded, self.sudo_user)
        done = subprocess.run(
            [*self._prefix, bounded],
            check=False,
            input=kwargs.get("stdin", b""),
            capture_output=True,
        )
        return self.result(done.returncode, bounded.encode(), done.stdout, done.stderr)

    def get_sudo_command(self, command: str, sudo_user: str | None) -> str:
        """Never ask for a password; keep the one variable that tells where we come from."""
        return f'sudo -n /usr/bin/env SSH_CONNECTION="$SSH_CONNECTION" {command}'

    def decode(self, data: bytes) -> str:
        """Damaged text is shown as such instead of ending the check."""
        return data.decode("utf-8", errors="replace")

    def encode(self, data: str) -> bytes:
        """Commands are UTF-8 everywhere, whatever the server's locale says."""
        return data.encode()
