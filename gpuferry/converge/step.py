"""Converging and verifying as steps of a deployment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gpuferry import inventory
from gpuferry.converge.run import converge

Say = Callable[[str], None]


def run(inputs: dict[str, Any], say: Say) -> dict[str, Any]:
    """Converge one server; the output differs whenever something was played."""
    entry = inventory.parse(inputs["inventory"])
    (done,) = converge([entry], say=say)
    return {
        "instance_id": entry.server.instance_id,
        "content": inputs["content"],
        "changed": done.changed,
        "played": done.played,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
