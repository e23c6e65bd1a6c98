"""How far a server's clock is from the controller's."""

from __future__ import annotations

import time
from typing import NamedTuple

from gpuferry.checking.node import Node

# Signed S3 requests and TLS break at minutes; logs of several servers mislead at seconds.
LARGEST_OFFSET_SECONDS = 2.0
_PATIENCE_SECONDS = 6.0


class Offset(NamedTuple):
    """Server minus controller; the true offset is within `seconds` plus or minus `error`."""

    seconds: float
    error: float

    def __str__(self) -> str:
        return f"{self.seconds:+.2f} s from here (known to {self.error:.2f} s)"

    @property
    def close(self) -> bool | None:
        """Whether it is small enough; None where the calls were too slow to tell."""
        if abs(self.seconds) + self.error <= LARGEST_OFFSET_SECONDS:
            return True
        return False if abs(self.seconds) - self.error > LARGEST_OFFSET_SECONDS else None


def offset(node: Node) -> Offset:
    """The offset by the quickest of some calls: an answer was made at some moment of its call."""
    ends = time.monotonic() + _PATIENCE_SECONDS
    best = _ask(node)
    while best.close is not True and time.monotonic() < ends:
        best = min(best, _ask(node), key=lambda found: found.error)
    return best


def _ask(node: Node) -> Offset:
    before = time.time()
    told = float(node.read(now="date +%s.%N")["now"].text)
    after = time.time()
    return Offset(told - (before + after) / 2, (after - before) / 2)
