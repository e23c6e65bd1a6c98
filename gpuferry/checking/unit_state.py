"""Whether a unit of systemd runs, and will after a boot."""

from __future__ import annotations

from gpuferry.checking.node import Reading
from gpuferry.checking.recorder import Recorder


def show(unit: str) -> str:
    """The command whose reading `judge_runs` wants."""
    return f"systemctl show --property=ActiveState --property=UnitFileState {unit}"


def judge_runs(reading: Reading, verdict: Recorder) -> None:
    """Active, and enabled."""
    lines = reading.output.split()
    verdict.judge(
        sorted(lines) == ["ActiveState=active", "UnitFileState=enabled"],
        measured=", ".join(lines) or reading.trouble,
        expected="active, enabled",
    )
