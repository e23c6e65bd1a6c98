"""What a server's shipper says it lost. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Nobody can bring lines back: what was told for a day need not fail for ever.
TOLD_HOURS = 24
_KINDS = {
    "dropped_lines": "lines dropped",
    "missed_lines": "lines missed",
    "uncounted_gaps": "gaps of unknown size",
}


def judge(told: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether nothing was lost lately and all is read, and how it stands; `told`: its status."""
    lost = [f"{told[key]} {what}" for key, what in _KINDS.items() if told[key]]
    # Either way: clocks are set back, too. The first shippers did not say when.
    hours = abs(told["at"] - told["lost_at"]) / 3600 if told.get("lost_at") else float("inf")
    ago = [f"last {hours:.0f} h ago"] if lost and told.get("lost_at") else []
    others = [f"{name} (driver {kind})" for name, kind in told["unread_containers"].items()]
    unread = [f"not read: {', '.join(others)}"] if others else []
    well = not unread and not (lost and hours < TOLD_HOURS)
    return well, "; ".join([*lost, *ago, *unread]) or "nothing is missing"
