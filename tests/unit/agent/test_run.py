"""What the loop does with time, and with what it finds when it starts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agent import run
from agent.config import Config
from agent.run import Agent

XID = "NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus."


def agent(tmp_path: Path) -> Agent:
    return Agent(
        Config(
            kernel_logs=(str(tmp_path / "kmsg"),),
            state_file=str(tmp_path / "state.json"),
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
