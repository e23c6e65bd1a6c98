"""Which baked image a server starts from, if one was built and is still up to date."""

from __future__ import annotations

import hashlib

from gpuferry.content import roles_digest
from gpuferry.nodes.local.docker import inspect

NAME = "gpuferry/node-baked"


def reference(bare: str, key: str) -> str:
    """The tag of the baked image for a bare image and a server's variables, built or not.

    Another version of the roles, of the bare image or of the variables is another image.
    """
    digest = hashlib.sha256(f"{bare} {roles_digest()} {key}".encode()).hexdigest()[:12]
    return f"{NAME}:{digest}"


def find(bare: str, key: str) -> str | None:
    """The baked image's tag, or None where it was not built, or is out of date."""
    tag = reference(bare, key) if key else ""
    return tag if tag and inspect("image", tag) is not None else None
