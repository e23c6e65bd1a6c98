"""ssh-audit with its hardened policy for the server's distribution, and what may deviate from it.

ssh-audit opens connections that never log in, and sshd counts those against their address. So it
goes through the server itself, as `knock.try_key` does: its address can never be shut out by this.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuferry.checking.job import Target
from gpuferry.checking.knock import RELAY

_TIMEOUT_SECONDS = 40
_NAMES = {"debian": "Debian", "ubuntu": "Ubuntu Server"}

# The whole list of what `compatible` deviates in: paramiko before 5.1 and Go programs before
# x/crypto 0.38 speak nothing else that an OpenSSH of this age offers.
CLASSICAL = (
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group18-sha512",
)


@dataclass(frozen=True)
class Judged:
    """What ssh-audit found against the policy."""

    ok: bool
    measured: str
    evidence: str


def policy(names: Sequence[str], os_id: str, version: str) -> str:
    """The hardened server policy for a distribution among ssh-audit's names; empty without one."""
    wanted = f"Hardened {_NAMES.get(os_id, os_id)} {version} "
    return next((name for name in names if name.startswith(wanted) and "Client" not in name), "")


def judge(report: dict[str, Any], exit_code: int, key_exchange: str) -> Judged:
    """Pass when the policy holds, or the written-down classical key exchanges are all it lacks."""
    name = report.get("policy", "")
    errors = report.get("errors", [])
    if exit_code == 0 and report.get("passed") is True:
        return Judged(True, f"exit 0, {name}", "")
    wrong: list[str] = []
    waived: list[str] = []
    for error in errors:
        surplus = [x for x in error["actual"] if x not in error["expected_required"]]
        kept = [x for x in error["actual"] if x in error["expected_required"]]
        field = error["mismatched_field"]
        allowed = (
            key_exchange == "compatible"
            and field == "Key exchanges"
            and tuple(surplus) == CLASSICAL
            and kept == error["expected_required"]
        )
        (waived if allowed else wrong).append(f"{field}: {', '.join(surplus) or 'another order'}")
    if errors and not wrong:
        text = f"{name}, but for the {len(CLASSICAL)} classical key exchanges of `compatible`"
        return Judged(True, text, "; ".join(waived))
    return Judged(False, "; ".join(wrong) or f"exit {exit_code}", f"{name}; {'; '.join(waived)}")


def available() -> list[str]:
    """Names of the policies that the installed ssh-audit has."""
    listed = subprocess.run(
        [sys.executable, "-m", "ssh_audit", "-n", "-L"], capture_output=True, text=True, check=False
    )
    return re.findall(r'"(Hardened [^"]+)"', listed.stdout)


def audit(target: Target, ssh_config: Path, name: str) -> tuple[int, dict[str, Any]]:
    """Run ssh-audit against the server; its exit code and its report."""
    with _door(target, ssh_config) as port:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "ssh_audit",
                "--skip-rate-test",
                "-j",
                f"-P{name}",
                f"-p{port}",
                "127.0.0.1",
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_SECONDS,
        )
    try:
        return done.returncode, dict(json.loads(done.stdout))
    except ValueError:
        text = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(f"ssh-audit: {(text or ['no output'])[-1]}") from None


@contextlib.contextmanager
def _door(target: Target, ssh_config: Path) -> Iterator[int]:
    """A port on this machine's loopback that leads to the server's sshd, by the server itself."""
    command = ["ssh", "-F", str(ssh_config), "-T", target.name, "--"]
    command.append(shlex.join(["python3", "-c", RELAY]))
    clients: list[subprocess.Popen[bytes]] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer:
                        handle = peer.fileno()
                        clients.append(subprocess.Popen(command, stdin=handle, stdout=handle))

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            # A thread that waits in accept() does not notice a close.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            for client in clients:
                client.kill()
                client.wait()
