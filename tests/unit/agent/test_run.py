"""What the loop does with time, and with what it finds when it starts."""

from __future__ import annotations

import glob
import json
import threading
import time
from pathlib import Path

import pytest

from agent import run
from agent.config import Config
from agent.progress import ProgressFiles
from agent.run import Agent

XID = "NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus."


def agent(tmp_path: Path) -> Agent:
    return Agent(
        Config(
            kernel_logs=(str(tmp_path / "kmsg"),),
            state_file=str(tmp_path / "state.json"),
            rollup_folder=str(tmp_path),
            progress_folder=str(tmp_path / "progress"),
        )
    )


def test_an_xid_after_a_suspend_is_as_old_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's log does not count the hour that the server slept."""
    monkeypatch.setattr(run, "clock", lambda: time.monotonic() + 3600)
    (tmp_path / "kmsg").write_text(f"3,1,{int(time.monotonic() * 1e6)},-;{XID}\n")
    a = agent(tmp_path)
    assert a._read_logs(run.clock())
    (entry,) = a.observer.book.entries
    assert run.clock() - entry.at < 60
    assert abs(time.time() - entry.clock) < 60


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 1, "inventory": {"GPU-1": {}}}',
        '{"version": 1, "inventory": []}',
        '{"version": 1, "accounts": {"GPU-1": 7}}',
        '{"version": 1, "cursors": []}',
        '{"version": 1, "xids": {"counts": {"a": "b"}}}',
        "{",
    ],
)
def test_a_state_file_that_cannot_be_used_costs_history_only(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    a = agent(tmp_path)
    assert (a.observer.gpus, a.observer.accounts) == ({}, {})
    a._save()
    a.saved()
    assert '"inventory":{}' in (tmp_path / "state.json").read_text()


def test_an_xid_book_of_another_release_is_left_behind(tmp_path: Path) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    kept = {"version": 1, "xids": {"boot": boot, "entries": [{"gone": 1}]}}
    (tmp_path / "state.json").write_text(json.dumps(kept))
    assert agent(tmp_path).observer.book.entries == []


def test_a_dead_file_system_of_progress_files_does_not_stop_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    alive = glob.glob
    a = agent(tmp_path)
    a._progress = ProgressFiles(str(tmp_path / "none"), [str(tmp_path / "*.log")])
    (tmp_path / "a.log").write_text("x")
    a._point(run.clock())
    assert len(a.observer.tracks) == 1

    def dead(pattern: str) -> list[str]:
        release.wait(60)
        return alive(pattern)

    monkeypatch.setattr(glob, "glob", dead)
    started = time.monotonic()
    for _ in range(3):
        a._point(run.clock())
    assert time.monotonic() - started < 10
    assert a.observer.tracks == {}, "what is not known is neither progress nor a stop"
    release.set()
    deadline = time.monotonic() + 10
    while not a.observer.tracks and time.monotonic() < deadline:
        a._point(run.clock())
    assert len(a.observer.tracks) == 1
