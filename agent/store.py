"""The state file: written beside and renamed; a lost one costs history, nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

VERSION = 1


def read(path: Path) -> dict[str, Any]:
    """What was kept; empty where there is nothing, or nothing that can be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) and data.get("version") == VERSION else {}


def write(path: Path, data: dict[str, Any]) -> None:
    """Replace the file as a whole.

    Raises:
        OSError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.draft")
    with draft.open("w", encoding="utf-8") as handle:
        json.dump({"version": VERSION, **data}, handle, separators=(",", ":"))
        handle.flush()
        os.fsync(handle.fileno())
    draft.replace(path)
