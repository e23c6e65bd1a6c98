"""How far a server's clock is from the controller's."""

from __future__ import annotations

import time

from gpuferry.checking.node import Node

# Signed S3 requests and TLS break at minutes; logs of several servers mislead at seconds.
LARGEST_OFFSET_SECONDS = 2.0


def offset_seconds(node: Node) -> float:
    """Return server minus controller; the answer is taken to be made half-way through the call."""
    before = time.time()
    told = float(node.read(now="date +%s.%N")["now"].text)
    return told - (before + time.time()) / 2
