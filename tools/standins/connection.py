"""Open an SSH connection whose server proves the expected host key."""

import io
import os

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from tools.standins.job import Job
from tools.standins.output import CommandFailed
from tools.standins.wire import Properties

# The official plugin's waits between two attempts (`sdk/go/common/util/retry`).
FIRST_WAIT_SECONDS = 0.1
WAIT_GROWTH = 1.5
LONGEST_WAIT_SECONDS = 5.0

KEEPALIVE_SECONDS = 15
SSH_PORT = 22
PRIVATE_KEY_TYPES = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


def connect(connection: Properties, job: Job) -> paramiko.SSHClient:
    """Connect as `connection` (revealed) says, trying again up to `dialErrorLimit` times.

    Every kind of failure is tried again, as in the official plugin: a server that is still
    being set up may refuse the port, then the key, then the user. Raises CommandFailed.
    """
    limit = int(connection["dialErrorLimit"])
    wait_seconds = FIRST_WAIT_SECONDS
    attempt = 0
    while True:
        attempt += 1
        try:
            return _dial(connection)
        except paramiko.BadHostKeyException as error:
            problem = _wrong_key(connection, error)
        except (OSError, EOFError, paramiko.SSHException) as error:
            problem = str(error) or type(error).__name__
        if 0 <= limit < attempt:
            raise CommandFailed(
                f"cannot connect to {_name(connection)} after {attempt} attempts: {problem}"
            )
        job.log(f"Dial {attempt}/{'inf' if limit < 0 else limit} failed: retrying")
        job.cancellation.sleep(wait_seconds)
        wait_seconds = min(wait_seconds * WAIT_GROWTH, LONGEST_WAIT_SECONDS)


def _dial(connection: Properties) -> paramiko.SSHClient:
    """Try once; the host key is compared before anything secret is sent."""
    client = paramiko.SSHClient()
    key = _host_key(connection)
    client.get_host_keys().add(_name(connection), key.get_name(), key)
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    timeout = connection["perDialTimeout"] or None
    client.connect(
        connection["host"],
        port=int(connection["port"]),
        username=connection["user"],
        password=connection.get("password"),
        pkey=_private_key(connection),
        allow_agent="SSH_AUTH_SOCK" in os.environ,
        look_for_keys=False,
        timeout=timeout,
        banner_timeout=timeout,
        auth_timeout=timeout,
    )
    transport = client.get_transport()
    assert transport
    transport.set_keepalive(KEEPALIVE_SECONDS)
    return client


def _name(connection: Properties) -> str:
    """Name the server as a known_hosts file does."""
    host, port = connection["host"], int(connection["port"])
    return host if port == SSH_PORT else f"[{host}]:{port}"


def _host_key(connection: Properties) -> paramiko.PKey:
    try:
        entry = HostKeyEntry.from_line(f"host {connection['hostKey']}")
    except InvalidHostKey:
        entry = None
    if entry is None or entry.key is None:
        raise CommandFailed("connection.hostKey is not a public key such as 'ssh-ed25519 AAAA…'")
    return entry.key


def _wrong_key(connection: Properties, error: paramiko.BadHostKeyException) -> str:
    return (
        f"its host key is {error.key.fingerprint}, but connection.hostKey"
        f" expects {_host_key(connection).fingerprint}"
    )


def _private_key(connection: Properties) -> paramiko.PKey | None:
    """Read the private key; its text never gets into an error."""
    text = connection.get("privateKey")
    if text is None:
        return None
    for key_type in PRIVATE_KEY_TYPES:
        try:
            return key_type.from_private_key(
                io.StringIO(text), connection.get("privateKeyPassword")
            )
        except (paramiko.SSHException, ValueError):
            continue
    raise CommandFailed(
        "connection.privateKey cannot be read: it must be an Ed25519, ECDSA or RSA key,"
        " and connection.privateKeyPassword its passphrase if it has one"
    )
