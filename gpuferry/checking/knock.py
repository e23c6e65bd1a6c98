"""Real login attempts from the controller, over connections of their own."""

from __future__ import annotations

import contextlib
import secrets
import shlex
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko

from gpuferry.checking.job import Target

_TIMEOUT_SECONDS = 10

# Runs on the server: joins its stdin and stdout to its own sshd, from a random loopback address.
RELAY = """
import os, random, select, socket
address, port = os.environ["SSH_CONNECTION"].split()[2:]
source = ("127.%d.%d.%d" % tuple(random.randrange(1, 255) for _ in range(3)), 0)
peer = socket.create_connection((address, int(port)), 10, None if ":" in address else source)
while True:
    ready, _, _ = select.select([0, peer], [], [], 15)
    data = os.read(0, 65536) if 0 in ready else peer.recv(65536) if ready else b""
    if not data:
        break
    peer.sendall(data) if 0 in ready else os.write(1, data)
"""


@dataclass(frozen=True)
class Answers:
    """What a stranger learns from sshd."""

    user: str
    host_key: str
    methods: tuple[str, ...]
    outcome: str  # of a login with a wrong password
    version: str = ""  # what sshd calls itself


class WrongHostKey(Exception):
    """Another host key than the pinned one; nothing was sent to that machine."""


def knock(target: Target, key_path: Path | None) -> Answers:
    """Ask which logins are offered, and try a wrong password.

    The connection ends with a proper login: sshd counts connections that only fail, and shuts out
    their address for a while (PerSourcePenalties, OpenSSH 9.8 and newer).
    """
    address = (target.address, target.port)
    sock = socket.create_connection(address, timeout=_TIMEOUT_SECONDS)
    with sock, _transport(sock) as transport:
        host_key = _shown_key(transport)
        if host_key != target.host_key:
            return Answers(target.user, host_key, ("not asked",), "not sent")
        methods = _offered(transport, target.user)
        password = _try_password(transport, target.user)
        if key_path:
            transport.auth_publickey(target.user, paramiko.PKey.from_path(key_path))
        return Answers(target.user, host_key, methods, password, transport.remote_version)


def try_key(target: Target, user: str, key_path: Path, ssh_config: Path) -> str:
    """Try to log in as `user` with the stack's key: `refused` or `accepted`.

    The attempt goes through the server itself, so that sshd does not hold it against the
    controller: after a few refused logins its address would be shut out (see `knock`).
    """
    key = paramiko.PKey.from_path(key_path)
    with _relay(target, ssh_config) as sock, _transport(sock) as transport:
        if _shown_key(transport) != target.host_key:
            raise WrongHostKey(f"{target.name} shows another host key; no login was tried")
        try:
            transport.auth_publickey(user, key)
        except paramiko.AuthenticationException:
            return "refused"
        return "accepted"


@contextlib.contextmanager
def _relay(target: Target, ssh_config: Path) -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    argv = [
        "ssh",
        "-F",
        str(ssh_config),
        "-T",
        target.name,
        "--",
        shlex.join(["python3", "-c", RELAY]),
    ]
    with (
        ours,
        theirs,
        subprocess.Popen(argv, stdin=theirs.fileno(), stdout=theirs.fileno()) as client,
    ):
        try:
            yield ours
        finally:
            client.kill()


@contextlib.contextmanager
def _transport(sock: socket.socket) -> Iterator[paramiko.Transport]:
    transport = paramiko.Transport(sock)
    try:
        transport.get_security_options().key_types = ("ssh-ed25519",)
        transport.start_client(timeout=_TIMEOUT_SECONDS)
        yield transport
    finally:
        transport.close()


def _shown_key(transport: paramiko.Transport) -> str:
    key = transport.get_remote_server_key()
    return f"{key.get_name()} {key.get_base64()}"


def _offered(transport: paramiko.Transport, user: str) -> tuple[str, ...]:
    try:
        transport.auth_none(user)
    except paramiko.BadAuthenticationType as refusal:
        return tuple(refusal.allowed_types)
    return ("none",)


def _try_password(transport: paramiko.Transport, user: str) -> str:
    try:
        transport.auth_password(user, secrets.token_urlsafe(16), fallback=False)
    except paramiko.BadAuthenticationType:
        return "not offered"
    except paramiko.AuthenticationException:
        return "offered and refused"
    return "accepted"
