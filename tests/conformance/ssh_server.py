"""A small SSH server on this machine: one user key, real commands, real files."""

import io
import os
import socket
import subprocess
import threading
from pathlib import Path

import paramiko
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ADDRESS = "127.0.0.1"
BUFFER_BYTES = 32768


def new_key() -> tuple[str, paramiko.Ed25519Key]:
    """Make an Ed25519 key; return its private text and the key."""
    text = (
        Ed25519PrivateKey.generate()
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        .decode()
    )
    return text, paramiko.Ed25519Key.from_private_key(io.StringIO(text))


def public_text(key: paramiko.PKey) -> str:
    """Write a public key as in an authorized_keys file."""
    return f"{key.get_name()} {key.get_base64()}"


class SSHServer:
    """Listens on a port of its own; can be made ready before it starts to listen."""

    def __init__(self) -> None:
        """Choose keys and a port; nothing listens yet."""
        self._host_private, self._host_key = new_key()
        self.user_private, self._user_key = new_key()
        self.host_key = public_text(self._host_key)
        self._socket = socket.socket()
        self._socket.bind((ADDRESS, 0))
        self.port: int = self._socket.getsockname()[1]
        self.logins = 0

    def start(self) -> None:
        """Begin to listen; until now connections were refused."""
        self._socket.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop to listen."""
        self._socket.close()

    def environment(self) -> dict[str, str]:
        """Return the facts that a program needs to connect."""
        return {
            "SSH_PORT": str(self.port),
            "SSH_KEY": self.user_private,
            "SSH_HOST_KEY": self.host_key,
        }

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(self._host_key)
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, LocalFiles)
            try:
                transport.start_server(server=_Session(self, self._user_key))
            except (paramiko.SSHException, EOFError):
                continue


class _Session(paramiko.ServerInterface):
    """One login: checks the key, runs each command in a shell."""

    def __init__(self, server: SSHServer, user_key: paramiko.PKey) -> None:
        self._server = server
        self._user_key = user_key
        self._environment = dict(os.environ)

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        if key != self._user_key:
            return paramiko.AUTH_FAILED
        self._server.logins += 1
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_env_request(
        self, channel: paramiko.Channel, name: bytes, value: bytes
    ) -> bool:
        self._environment[name.decode()] = value.decode()
        return True

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._execute, args=(channel, command), daemon=True).start()
        return True

    def _execute(self, channel: paramiko.Channel, command: bytes) -> None:
        stdin = b"".join(iter(lambda: channel.recv(BUFFER_BYTES), b""))
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            env=self._environment,
            input=stdin,
            capture_output=True,
            check=False,
        )
        channel.sendall(done.stdout)
        channel.sendall_stderr(done.stderr)
        channel.send_exit_status(done.returncode)
        channel.close()


class LocalFiles(paramiko.SFTPServerInterface):
    """SFTP on this machine's own files."""

    def stat(self, path: str) -> paramiko.SFTPAttributes | int:
        try:
            return paramiko.SFTPAttributes.from_stat(Path(path).stat())
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)

    def lstat(self, path: str) -> paramiko.SFTPAttributes | int:
        return self.stat(path)

    def mkdir(self, path: str, attr: paramiko.SFTPAttributes) -> int:
        try:
            Path(path).mkdir()
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        return paramiko.SFTP_OK

    def open(
        self, path: str, flags: int, attr: paramiko.SFTPAttributes
    ) -> paramiko.SFTPHandle | int:
        try:
            stream = os.fdopen(os.open(path, flags, 0o600), "wb" if flags & os.O_WRONLY else "r+b")
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        handle = paramiko.SFTPHandle(flags)
        handle.writefile = handle.readfile = stream  # type: ignore[attr-defined]
        return handle
