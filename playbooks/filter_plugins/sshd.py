"""Filters over the settings that other files give to sshd, for the ssh_hardening role."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Ansible loads plugins by file; the decisions are shared with the servers and the checks.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gpuferry.shared import shared

Settings = list[dict[str, Any]]


def sshd_in_force(settings: Settings, daemon: dict[str, Any], login: dict[str, Any]) -> list[str]:
    """Contradicting lines that would count in spite of our file, with where they stand."""
    files = shared("sshd_files")
    lower = [{key.lower(): value for key, value in part.items()} for part in (daemon, login)]
    found = files.contradictions(settings, *lower)
    return [files.place(setting) for setting in found if setting["in_force"]]


def sshd_lock_outs(settings: Settings, *who: Any) -> list[str]:
    """Sentences about lines that would shut this run out."""
    return list(shared("sshd_files").lock_outs(settings, *who))


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Name to function."""
        return {"sshd_in_force": sshd_in_force, "sshd_lock_outs": sshd_lock_outs}
