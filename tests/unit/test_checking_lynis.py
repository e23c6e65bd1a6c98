"""Lynis' report, and a floor that only rises."""

from __future__ import annotations

import pytest
import yaml

from gpuferry.checking import lynis
from gpuferry.paths import REPOSITORY

FLOORS = REPOSITORY / "gpuferry/checking/lynis_floors.yaml"
# What has been reached. Raise it with a new step; lowering it is what this test is against.
REACHED = {("debian-13", "container"): 65, ("debian-12", "container"): 65}


@pytest.mark.parametrize(("system", "kind"), REACHED)
def test_floors_only_rise(system: str, kind: str) -> None:
    steps = yaml.safe_load(FLOORS.read_text())[system][kind]
    assert [s["index"] for s in steps] == sorted({s["index"] for s in steps})
    assert [s["date"] for s in steps] == sorted(s["date"] for s in steps)
    assert lynis.floor(system, kind) == REACHED[system, kind]


def test_the_highest_step_counts() -> None:
    floors = {"x": {"vm": [{"index": 60}, {"index": 70}, {"index": 65}]}}
    assert lynis.floor("x", "vm", floors) == 70


@pytest.mark.parametrize(("system", "kind"), [("debian-13", "server"), ("plan9", "container")])
def test_what_nobody_measured_has_no_floor(system: str, kind: str) -> None:
    assert lynis.floor(system, kind) is None


REPORT = """# Lynis Report
lynis_version=3.0.8
hardening_index=67
warning[]=NETW-2705|Couldn't find 2 responsive nameservers|-|-|
suggestion[]=SSH-7408|Consider hardening SSH configuration|Port (set 22 to )|-|
suggestion[]=KRNL-6000|One or more sysctl values differ|-|-|
tests_executed=HRDN-7230|KRNL-6000|
"""


def test_a_report_is_read() -> None:
    assert lynis.parse(REPORT) == {
        "lynis_version": "3.0.8",
        "hardening_index": "67",
        "warning": ["NETW-2705"],
        "suggestion": ["SSH-7408", "KRNL-6000"],
    }


def test_a_report_that_broke_off_has_no_index() -> None:
    assert "hardening_index" not in lynis.parse("lynis_version=3.0.8\n")
