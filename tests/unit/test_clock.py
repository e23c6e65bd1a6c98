"""A slow answer is no wrong clock: what a call leaves open is not held against the server."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from gpuferry.checking.clock import Offset, offset


@pytest.mark.parametrize(
    ("seconds", "error", "close"),
    [
        (0.1, 0.2, True), (-1.5, 0.4, True), (3.0, 0.5, False), (-2.6, 0.1, False),
        # An emulated machine under load answered in 9 s.
        (2.6, 4.5, None), (0.1, 2.5, None),
    ],
)  # fmt: skip
def test_only_what_is_certain_is_judged(seconds: float, error: float, close: bool | None) -> None:
    assert Offset(seconds, error).close is close


class SlowFirst:
    """A server whose clock is right, and whose first answer takes long and comes at its end."""

    calls = 0

    def read(self, now: str) -> dict[str, Any]:
        assert now == "date +%s.%N"
        self.calls += 1
        if self.calls == 1:
            time.sleep(0.3)
        return {"now": SimpleNamespace(text=str(time.time()))}


def test_the_quickest_of_the_answers_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuferry.checking.clock.LARGEST_OFFSET_SECONDS", 0.1)
    server = SlowFirst()
    found = offset(server)  # type: ignore[arg-type]
    assert server.calls == 2
    assert found.close is True
    assert found.error < 0.1
