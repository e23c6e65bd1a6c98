"""Hashes of what the playbooks and the checks are made of: another hash, another run."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gpuferry.paths import REPOSITORY

# What the roles `agent` and `log_shipping` hand to servers, beside their own files; their owns.yml
# name the same.
_DELIVERED = ("agent", "requirements/agent.txt", "gpuferry/driver/rules/xid.yaml", "shipper")


def tree_digest(*parts: str, root: Path = REPOSITORY) -> str:
    """Hash of files of the repository, and of all files below folders: names and contents."""
    digest = hashlib.sha256()
    for part in parts:
        whole = root / part
        for path in [whole] if whole.is_file() else sorted(whole.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def roles_digest() -> str:
    """What a server is converged with."""
    return tree_digest("roles", "playbooks", *_DELIVERED)


def checks_digest() -> str:
    """What a server is verified with."""
    return tree_digest("checks", "gpuferry/checking")
