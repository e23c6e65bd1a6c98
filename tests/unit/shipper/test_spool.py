"""The spool and the state survive what can happen between any two steps."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from shipper.spool import Entry, Spool, body
from shipper.state import Counters, State


def add(spool: Spool, number: int, lines: int = 10) -> Entry:
    return spool.add(f"key-{number}", "journal", f"end-{number}", lines, (number, number), b"x" * 9)


def test_what_was_added_is_there_again_in_order(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 0)
    for number in (1, 2, 3):
        add(spool, number)
    again = Spool(str(tmp_path), 0)
    first = again.oldest()
    assert first is not None
    assert (first.key, first.end, first.lines, first.found) == ("key-1", "end-1", 10, True)
    assert body(first) == b"x" * 9
    assert again.end("journal") == "end-3"
    assert again.end("containers") is None
    assert again.size == 3 * 4096


def test_numbers_are_never_given_twice(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 7)
    entry = add(spool, 1)
    assert entry.number == 8
    spool.remove(entry)
    assert add(Spool(str(tmp_path), 8), 2).number == 9


def test_halves_are_removed_and_broken_ones_are_told(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 0)
    entry = add(spool, 1)
    add(spool, 2)
    (tmp_path / "000000000003.chunk.draft").write_bytes(b"half")
    path = Path(entry.path)
    path.write_bytes(path.read_bytes()[:-1])
    again = Spool(str(tmp_path), 0)
    assert again.waiting == 1
    assert len(again.unreadable) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000000000002.chunk"]


def test_what_is_being_sent_is_not_given_up(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 0)
    first, second = add(spool, 1), add(spool, 2)
    assert spool.claim() == first
    assert spool.give_up() == second
    assert spool.give_up() is None
    spool.release()
    assert spool.give_up() == first


def test_a_chunk_verified_after_a_newer_one_was_dropped_does_not_go_back(tmp_path: Path) -> None:
    spool, state = Spool(str(tmp_path / "spool"), 0), State.load(str(tmp_path))
    first, second = add(spool, 1), add(spool, 2, lines=5)
    state.dropped(second)
    state.shipped(first, 9)
    again = State.load(str(tmp_path))
    assert again.positions == {"journal": "end-2"}
    assert (again.counters.dropped_lines, again.counters.shipped_lines) == (5, 10)
    assert again.dropping == second.number == again.highest


def test_what_could_not_be_written_down_has_not_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk everything is tried again, and must not be counted again."""
    spool, state = Spool(str(tmp_path / "spool"), 0), State.load(str(tmp_path))
    entry = add(spool, 1)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shipper.state.write_whole", full)
    changes = (
        lambda: state.shipped(entry, 9),
        lambda: state.dropped(entry),
        lambda: state.missed(7, "cursor"),
        lambda: state.missed(None),
        lambda: state.uploaded("2026-11-30", "x"),
    )
    for change in changes:
        with pytest.raises(OSError, match="No space"):
            change()
    assert (state.counters, state.positions, state.numbers) == (Counters(), {}, {})
    assert (state.dropping, state.rollups) == (0, {})
    assert (state.gap_after, state.lost_at) == ("", 0.0)
    monkeypatch.undo()
    assert state.missed(7, "cursor")
    assert not state.missed(7, "cursor")
    again = State.load(str(tmp_path))
    assert not again.missed(7, "cursor")
    assert again.counters.missed_lines == 7
    assert again.missed(2, "another cursor")
    assert abs(again.lost_at - time.time()) < 60


def test_what_could_not_be_given_up_is_taken_back_in_order(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 0)
    first, second = add(spool, 1), add(spool, 2)
    assert spool.give_up() == first
    spool.take_back(first)
    assert (spool.oldest(), spool.waiting, spool.size) == (first, 2, 2 * 4096)
    assert spool.end("journal") == second.end


def test_a_state_of_another_kind_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"version": 0}))
    assert State.load(str(tmp_path)).positions == {}
    (tmp_path / "state.json").write_text("{")
    assert State.load(str(tmp_path)).positions == {}
