"""The node agent as files of a server: its own modules, its locked packages, the Xid catalogue."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import re
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

DOCUMENTATION = r"""
name: agent_files
short_description: The node agent as files of a server
description:
  - The packages are taken from this environment, which was installed from the lock file with its
    hashes; each file is compared with what its package says about it.
options:
  _terms:
    description: The folder on the server that the modules are imported from.
"""

_ROOT = Path(__file__).resolve().parents[2]
_LOCK = "requirements/agent.txt"


def modules() -> dict[str, str]:
    """The agent's own modules, by path below the folder, with the catalogue beside them."""
    files = {
        str(path.relative_to(_ROOT)): path.read_text(encoding="utf-8")
        for path in sorted((_ROOT / "agent").rglob("*.py"))
    }
    rules = yaml.safe_load((_ROOT / "gpuferry/driver/rules/xid.yaml").read_text(encoding="utf-8"))
    return {**files, "agent/xid.json": json.dumps(rules, sort_keys=True) + "\n"}


def locked(lock: str) -> dict[str, str]:
    """Versions of a lock file by package."""
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", lock, re.MULTILINE))


def package(name: str, version: str) -> dict[str, str]:
    """Python files of an installed package.

    Raises:
        AnsibleError: it is another version, or a file is not what was installed.
    """
    found = importlib.metadata.distribution(name)
    if found.version != version:
        raise AnsibleError(
            f"This environment has {name} {found.version}, {_LOCK} asks for {version}. "
            "Run ./ferry, which sets up the right one."
        )
    files = {}
    for file in found.files or []:
        if file.suffix != ".py" or file.hash is None:
            continue
        data = Path(str(file.locate())).read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.new(file.hash.mode, data).digest())
        if digest.rstrip(b"=").decode() != file.hash.value:
            raise AnsibleError(
                f"{file} of {name} was changed after it was installed. Remove this environment "
                f"({Path(str(file.locate())).parent}) and run again."
            )
        files[str(file)] = data.decode()
    return files


class LookupModule(LookupBase):
    """What Ansible looks for."""

    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[dict[str, str]]:
        """Return `path` and `content` of every file."""
        files = modules()
        lock = locked((_ROOT / _LOCK).read_text(encoding="utf-8"))
        for name, version in lock.items():
            files |= package(name, version)
        return [{"path": f"{terms[0]}/{path}", "content": text} for path, text in files.items()]
