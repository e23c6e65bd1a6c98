"""What several processes want at once is made once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gpuferry.turns import turn


def test_the_second_says_that_it_waits_and_comes_after_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    order: list[str] = []
    waits = threading.Event()

    def say(text: str) -> None:
        order.append(text)
        waits.set()

    def second() -> None:
        with turn("a: thing/x", say):
            order.append("second")

    with turn("a: thing/x", order.append):
        other = threading.Thread(target=second)
        other.start()
        assert waits.wait(10)
        order.append("first")
    other.join(10)
    assert order == ["waiting for a: thing/x, which another process makes", "first", "second"]


def test_different_things_are_made_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said: list[str] = []
    with turn("one", said.append), turn("other", said.append):
        assert said == []
