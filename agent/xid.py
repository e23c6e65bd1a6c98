"""What an Xid asks for. NVIDIA's catalogue is data: gpuferry/driver/rules/xid.yaml."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.xid_lines import Line

_RECOVERY = re.compile(r"recovery action changed from .* to .*\((.+)\)", re.I)


def catalogue(path: Path) -> dict[str, Any]:
    """Read the catalogue as JSON, whose keys are text; empty where it is missing.

    Without it every code is unknown, which is told as such and never dropped.
    """
    try:
        rules = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"codes": {}, "recovery": {}, "decoded": {"codes": []}}
    return {**rules, "codes": {int(code): row for code, row in rules["codes"].items()}}


def action(line: Line, rules: Mapping[str, Any]) -> str:
    """The catalogue's action for one line by itself, `unknown` where it has none."""
    if line.kind == "sxid":
        return "ignore" if "non-fatal" in line.rest.lower() else "workflow"
    found: str = rules["codes"].get(line.code, {}).get("action", "unknown")
    if line.code in rules["decoded"]["codes"]:
        words = re.search(r"\b(Fatal|Nonfatal)\b", line.rest)
        return str(rules["decoded"][words.group(1)]["action"]) if words else found
    if line.code == 154 and (asked := _RECOVERY.search(line.rest)):
        return str(rules["recovery"].get(asked.group(1), {}).get("action", "unknown"))
    return found


def what(line: Line, rules: Mapping[str, Any]) -> str:
    """The catalogue's words for it."""
    if line.kind == "sxid":
        return "NVSwitch error"
    return str(rules["codes"].get(line.code, {}).get("what", "not in the catalogue"))


def beside(code: int, own: str, others: set[int]) -> str:
    """The action of a code given the other codes of the same GPU.

    45 is the cleanup after another fault; 48 beside 63, 64 or 95 needs the reset that those lead to
    (NVIDIA's workflows for Xid 45 and 48).
    """
    if code == 45 and others:
        return "ignore"
    if code == 48 and others & {63, 64, 95}:
        return "reset_gpu"
    return own
