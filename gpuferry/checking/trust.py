"""Which certificate authorities a server trusts."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Mapping

from gpuferry.checking.node import Node

# The bundle is what OpenSSL, GnuTLS, curl, git and Python read on Debian.
_PROGRAM = """
import hashlib, ssl
context = ssl.create_default_context(cafile="/etc/ssl/certs/ca-certificates.crt")
answer = [hashlib.sha256(der).hexdigest() for der in context.get_ca_certs(binary_form=True)]
"""


def untrusted(node: Node, certificates: Mapping[str, str]) -> list[str]:
    """Return the names of those PEM certificates that the server's trust store does not hold."""
    trusted = set(node.python(_PROGRAM, None))
    return [name for name, pem in certificates.items() if _sha256(pem) not in trusted]


def _sha256(pem: str) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.strip())).hexdigest()
