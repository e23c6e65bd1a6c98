"""The rules as data: `rules/*.yaml`, every row with its source."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

_FOLDER = Path(__file__).parent / "rules"


@cache
def table(name: str) -> dict[str, Any]:
    """One table, read once; callers do not change it."""
    text = (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def architecture_of(device: str) -> str:
    """The architecture of a PCI device id, or an empty string when it is in no known range."""
    number = int(device, 16)
    for row in table("devices")["ranges"]:
        if int(row["from"], 16) <= number <= int(row["to"], 16):
            return str(row["architecture"])
    return ""


def first_branch_of(device: str) -> int:
    """The first driver branch that knows a device id; its architecture has to be known."""
    for row in table("devices")["later"]:
        if device in row["ids"]:
            return int(row["first_branch"])
    return int(table("architectures")["architectures"][architecture_of(device)]["first_branch"])


def open_modules_fit(device: str, branch: int) -> bool:
    """Whether NVIDIA supports the open modules of a branch on a device that may have either."""
    rules = table("open_modules")
    if branch >= rules["default_from_branch"]:
        return True
    return any(row["branch"] <= branch and device in row["ids"] for row in rules["before"])
