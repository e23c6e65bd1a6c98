"""What OpenSSH's words mean: one reason, one sentence for people, and whether waiting helps."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Literal

from gpuferry.errors import ServerUnreachable
from gpuferry.nodes.server import Server

Reason = Literal[
    "refused", "timeout", "closed", "unroutable", "unresolved", "host_key", "denied", "other"
]

# A booting server shows these in turn; the others do not go away by waiting.
WORTH_RETRYING: frozenset[Reason] = frozenset(("refused", "timeout", "closed", "unroutable"))

# Order matters: a host key failure also says "closed", a login refused at boot also says "denied".
_SIGNS: tuple[tuple[str, Reason], ...] = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed", "host_key"),
    (r"no matching host key type found|No \S+ host key is known", "host_key"),
    (r"System is booting up|System is going down|pam_nologin", "closed"),
    (r"Permission denied|Too many authentication failures|No supported authentication", "denied"),
    (r"Connection refused", "refused"),
    (r"timed out|Connection to \S+ port \d+ timed out|not responding", "timeout"),
    (r"No route to host|Network is unreachable|Host is down", "unroutable"),
    (r"Could not resolve hostname", "unresolved"),
    (
        r"Connection (closed|reset)|kex_exchange_identification|banner exchange|Broken pipe",
        "closed",
    ),
    (r"Not allowed at this time", "closed"),
)
_FOUND_KEY = re.compile(
    r"The fingerprint for the (\S+) key sent by the remote host is\s+(\S+?)\.?\s"
)
_OFFERED = re.compile(r"no matching host key type found\. Their offer: (\S+)")


class SshFailure(ServerUnreachable):
    """One server could not be reached over SSH; `reason` is for code, the text for people."""

    def __init__(self, server: Server, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.server = server.name
        self.reason: Reason = reason

    @property
    def retryable(self) -> bool:
        """Whether the same attempt may succeed a little later."""
        return self.reason in WORTH_RETRYING


def fingerprint(public_key: str) -> str:
    """Return OpenSSH's SHA256 fingerprint of a public key line (`ssh-keygen -l` shows the same)."""
    try:
        blob = base64.b64decode(public_key.split()[1], validate=True)
    except (IndexError, binascii.Error):
        return "(not a public key)"
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def reason_of(stderr: str) -> Reason:
    """Classify what `ssh` printed when it could not connect."""
    return next((reason for sign, reason in _SIGNS if re.search(sign, stderr)), "other")


def explain(server: Server, stderr: str) -> SshFailure:
    """Turn ssh's own words into an error that names the server and the next step."""
    reason = reason_of(stderr)
    where = f"{server.name} ({server.address} port {server.port})"
    last_line = next((line for line in reversed(stderr.splitlines()) if line.strip()), "no output")
    texts: dict[Reason, str] = {
        "refused": f"{where}: connection refused; the machine is up but no SSH server listens "
        "there. Check the port, or wait until it has booted.",
        "timeout": f"{where}: no answer; the machine is off, or a firewall drops this computer's "
        "packets. Check firewall.ssh_from and the address.",
        "closed": f"{where}: the SSH server closed the connection before the login ({last_line}). "
        "It is starting, overloaded, or turns this address away for a while.",
        "unroutable": f"{where}: there is no route to this address; the machine is off, or this "
        "computer's network (VPN?) does not lead there. ./ferry nodes shows its state, ./ferry up "
        "starts a local one that is off.",
        "unresolved": f"{where}: this name has no address. Check the spelling and the DNS.",
        "host_key": _explain_host_key(server, where, stderr),
        "denied": f"{where}: the server refused the login of {server.user!r} with the stack's key "
        f"({last_line}). Put that public key into {server.user}'s authorized_keys, or correct the "
        "user.",
        "other": f"{where}: ssh failed: {last_line}",
    }
    return SshFailure(server, reason, texts[reason])


def _explain_host_key(server: Server, where: str, stderr: str) -> str:
    found = _FOUND_KEY.search(stderr)
    offered = _OFFERED.search(stderr)
    if found:
        shown = f"{found[2]} ({found[1]})"
    elif offered:
        shown = f"no ed25519 key (it offers {offered[1]})"
    else:
        shown = "another key"
    return (
        f"{where}: wrong host key. Expected {fingerprint(server.host_key)}, found {shown}. Either "
        "another machine answers at this address, or the server was reinstalled: compare with "
        "`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the server's console and correct "
        "host_key only if it is yours. Nothing was sent to it."
    )
