"""Whether everything on this machine that logs in to servers speaks a key exchange they offer.

Measured where the client can be asked; the Pulumi command plugin cannot, so what its releases can
speak is written down here.
"""

from __future__ import annotations

import importlib.metadata
import socket
import subprocess
from collections.abc import Collection, Mapping

# From its releases' go.mod and golang.org/x/crypto/ssh/common.go (defaultKexAlgos): 1.1.1 is the
# first with x/crypto >= 0.38, which brought mlkem768x25519-sha256. It never spoke sntrup761.
_PLUGIN_CLASSIC = ("curve25519-sha256", "ecdh-sha2-nistp256", "diffie-hellman-group14-sha256")
_PLUGIN_PQ = ((1, 1, 1), "mlkem768x25519-sha256")
PLUGIN = "Pulumi's command plugin"


def without_common(clients: Mapping[str, Collection[str]], offered: Collection[str]) -> list[str]:
    """Names of the clients that share no key exchange with a server that offers these."""
    return [name for name, spoken in clients.items() if not set(spoken) & set(offered)]


def plugin_kex(version: str) -> tuple[str, ...]:
    """Key exchanges of a release of the command plugin, such as `1.2.1`."""
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:3] if part.isdigit())
    first, name = _PLUGIN_PQ
    return (name, *_PLUGIN_CLASSIC) if numbers >= first else _PLUGIN_CLASSIC


def here() -> dict[str, Collection[str]]:
    """Every client of this machine with the key exchanges that it speaks.

    `ssh` is asked; paramiko's are those of the installed release with its cryptography library.
    """
    import paramiko

    listed = subprocess.run(["ssh", "-Q", "kex"], capture_output=True, text=True, check=False)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        spoken = tuple(paramiko.Transport(ours).get_security_options().kex)
    version = importlib.metadata.version("pulumi_command")
    return {
        "OpenSSH": listed.stdout.split(),
        f"paramiko {paramiko.__version__}": spoken,
        f"{PLUGIN} {version}": plugin_kex(version),
    }
