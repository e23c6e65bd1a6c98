"""Every kind of SSH client that this product logs in with, for real."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import paramiko

from gpuferry.nodes.session import SshSession
from gpuferry.prepare import binaries
from tests.support.node import Node

GO_CLIENT = Path(__file__).with_name("go_client")


def by_openssh(node: Node) -> str:
    """Who a new connection of `ssh` is logged in as."""
    with SshSession([node.server]) as session:
        done = session.run(node.server, ["id", "-un"], timeout_seconds=30)
    return done.stdout.decode().strip()


@contextlib.contextmanager
def paramiko_client(
    node: Node, user: str | None = None, key: str | None = None
) -> Iterator[paramiko.Transport]:
    """A paramiko connection, logged in with the pinned host key."""
    server = node.server
    assert server.private_key is not None
    text = key or server.private_key.get_secret_value()
    with socket.create_connection((server.address, server.port), timeout=15) as sock:
        transport = paramiko.Transport(sock)
        try:
            transport.start_client(timeout=15)
            shown = transport.get_remote_server_key()
            assert f"{shown.get_name()} {shown.get_base64()}" == server.host_key
            transport.auth_publickey(user or server.user, _key(text))
            yield transport
        finally:
            transport.close()


def by_paramiko(node: Node) -> str:
    """Who a new connection of paramiko is logged in as."""
    with paramiko_client(node) as transport, transport.open_session() as channel:
        channel.exec_command("id -un")
        return channel.makefile().read().decode().strip()


def by_go(node: Node, folder: Path) -> str:
    """Who a new connection of the command plugin's own library is logged in as."""
    server, key, program = node.server, folder / "key", folder / "go_client"
    go = binaries.find_go()
    assert go is not None, f"needs Go {binaries.MINIMUM_GO_TEXT}"
    assert server.private_key is not None
    if not program.exists():
        build = [go, "build", "-o", str(program), "."]
        subprocess.run(build, cwd=GO_CLIENT, check=True, capture_output=True, timeout=300)
    key.write_text(server.private_key.get_secret_value())
    done = subprocess.run(
        [str(program), f"{server.address}:{server.port}", server.user, str(key), server.host_key],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout.strip() or done.stderr.strip()


def may_forward(node: Node, user: str, key: str, host: str = "127.0.0.1") -> bool:
    """Whether a person may reach a port of the server's loopback, or another host, through it."""
    with paramiko_client(node, user, key) as transport:
        try:
            transport.open_channel("direct-tcpip", (host, 22), ("127.0.0.1", 1)).close()
        except paramiko.ChannelException as refusal:
            if refusal.code != paramiko.common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED:
                raise
            return False
        return True


def _key(text: str) -> paramiko.PKey:
    import io

    return paramiko.Ed25519Key.from_private_key(io.StringIO(text))
