"""Converging and verifying as steps of a deployment."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

from gpuferry import inventory
from gpuferry.converge.run import converge

Say = Callable[[str], None]


def _before() -> dict[str, Any]:
    """What this step answered last time; empty at its first."""
    return dict(json.loads(os.environ.get("PULUMI_COMMAND_STDOUT") or "{}"))


def run(inputs: dict[str, Any], say: Say) -> dict[str, Any]:
    """Converge one server; the output differs whenever something was played."""
    entry = inventory.parse(inputs["inventory"])
    size = {key: value for key, value in entry.variables.items() if key.startswith("resize_")}
    playbook = "resize.yml" if _before().get("size", size) != size else "site.yml"
    (done,) = converge([entry], playbook=playbook, say=say)
    return {
        "size": size,
        "instance_id": entry.server.instance_id,
        "content": inputs["content"],
        "changed": done.changed,
        "played": done.played,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
