"""Where gpuferry keeps things; all below the XDG folders of the person who runs it."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# Names a file with the policy pack's configuration; where it is set, the pack judges deployments.
POLICY_CONFIG = "GPUFERRY_POLICY_CONFIG"


def _xdg(variable: str, fallback: str) -> Path:
    value = os.environ.get(variable, "")
    return (Path(value) if value.startswith("/") else Path.home() / fallback) / "gpuferry"


def cache_dir() -> Path:
    """Things that can be made again: Python environment, built binaries."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def data_dir() -> Path:
    """Things that cannot: Pulumi's state and the disks of local servers."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def config_dir() -> Path:
    """The passphrase that encrypts secrets in the state."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def local_name(project: str, stack: str) -> str:
    """What a stack is called on this machine; two projects may have stacks of the same name."""
    return stack if project == "gpuferry" else f"{project}.{stack}"


def local_dir(stack: str) -> Path:
    """Disks and object data of one local stack."""
    return data_dir() / "local" / stack
