"""What was lost fails the check for a day, and is told after it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuferry.logs.losses import judge

HOUR = 3600.0
NOW = 1e6 * HOUR


@pytest.mark.parametrize(
    ("change", "well", "measured"),
    [
        ({}, True, "nothing is missing"),
        ({"dropped_lines": 7, "lost_at": NOW - HOUR}, False, "7 lines dropped; last 1 h ago"),
        ({"missed_lines": 7, "lost_at": NOW - 25 * HOUR}, True, "7 lines missed; last 25 h ago"),
        ({"uncounted_gaps": 1, "lost_at": NOW + HOUR}, False,
         "1 gaps of unknown size; last 1 h ago"),
        # Written by a shipper that did not say when.
        ({"missed_lines": 7}, True, "7 lines missed"),
        ({"unread_containers": {"a": "local"}}, False, "not read: a (driver local)"),
    ],
)  # fmt: skip
def test_losses(change: dict[str, Any], well: bool, measured: str) -> None:
    told = {"at": NOW, "dropped_lines": 0, "missed_lines": 0, "uncounted_gaps": 0,
            "unread_containers": {}}  # fmt: skip
    assert judge(told | change) == (well, measured)
