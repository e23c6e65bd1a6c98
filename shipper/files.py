"""Files that are whole or not there, also after the power failed."""

from __future__ import annotations

import json
import os
from typing import Any


def write_whole(path: str, data: bytes, *, durable: bool = True) -> None:
    """Write beside and rename.

    Raises:
        OSError: it cannot be written; what was there before stays.
    """
    draft = f"{path}.draft"
    try:
        with open(draft, "wb") as handle:
            handle.write(data)
            handle.flush()
            if durable:
                os.fsync(handle.fileno())
        os.replace(draft, path)
    except OSError:
        try:
            os.unlink(draft)
        except OSError:
            pass
        raise
    if durable:
        sync_folder(os.path.dirname(path))


def sync_folder(folder: str) -> None:
    """Make renames and removals in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: str) -> dict[str, Any]:
    """What a file holds; empty where there is none, or nothing that can be read."""
    try:
        with open(path, encoding="utf-8") as handle:
            data = json.load(handle)
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
