"""Hashes of what the playbooks and the checks are made of: another hash, another run."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gpuferry.paths import REPOSITORY


def tree_digest(*folders: str, root: Path = REPOSITORY) -> str:
    """Hash of all files below the folders of the repository, names and contents."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def roles_digest() -> str:
    """What a server is converged with."""
    return tree_digest("roles", "playbooks", "agent", "requirements")


def checks_digest() -> str:
    """What a server is verified with."""
    return tree_digest("checks", "gpuferry/checking")
