"""Real login attempts from the controller, over connections of their own."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko

from gpuferry.checking.job import Target

_TIMEOUT_SECONDS = 10


@dataclass(frozen=True)
class Answers:
    """What a stranger learns from sshd."""

    user: str
    host_key: str
    methods: tuple[str, ...]
    outcome: str  # of a login with a wrong password


class WrongHostKey(Exception):
    """Another host key than the pinned one; nothing was sent to that machine."""


def knock(target: Target, key_path: Path | None) -> Answers:
    """Ask which logins are offered, and try a wrong password.

    The connection ends with a proper login: sshd counts connections that only fail, and shuts out
    their address for a while (PerSourcePenalties, OpenSSH 9.8 and newer).
    """
    with _connection(target) as transport:
        host_key = _shown_key(transport)
        if host_key != target.host_key:
            return Answers(target.user, host_key, ("not asked",), "not sent")
        methods = _offered(transport, target.user)
        password = _try_password(transport, target.user)
        if key_path:
            transport.auth_publickey(target.user, paramiko.PKey.from_path(key_path))
        return Answers(target.user, host_key, methods, password)


def try_key(target: Target, user: str, key_path: Path | None) -> str:
    """Try to log in as `user` with the stack's key: `refused` or `accepted`."""
    if key_path is None:
        raise ValueError("there is no key to try")
    key = paramiko.PKey.from_path(key_path)
    with _connection(target) as transport:
        if _shown_key(transport) != target.host_key:
            raise WrongHostKey(f"{target.name} shows another host key; no login was tried")
        try:
            transport.auth_publickey(user, key)
        except paramiko.AuthenticationException:
            return "refused"
        return "accepted"


@contextlib.contextmanager
def _connection(target: Target) -> Iterator[paramiko.Transport]:
    sock = socket.create_connection((target.address, target.port), timeout=_TIMEOUT_SECONDS)
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
