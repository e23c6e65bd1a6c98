"""What waits, and every reason against a reboot."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import yaml

from gpuferry.paths import REPOSITORY
from gpuferry.shared import shared

STATE = shared("update_state")
APT = """NOTE: This is only a simulation!
Inst libssl3t64 [3.5.1-1] (3.5.1-1+deb13u1 Debian-Security:13/stable-security [amd64])
Inst bash [5.2-1] (5.2-2 Debian:13.2/stable [amd64])
Inst tzdata [1] (2 Ubuntu:24.04/noble-security, Ubuntu:24.04/noble-updates [all])
Inst newdep (1.0 Debian:13.2/stable [amd64])
Conf libssl3t64 (3.5.1-1+deb13u1 Debian-Security:13/stable-security [amd64])
"""


def test_security_updates_are_told_from_others() -> None:
    security, other = STATE.pending(APT)
    assert security == {"libssl3t64": "3.5.1-1+deb13u1", "tzdata": "2"}
    assert other == {"bash": "5.2-2"}


def test_how_long_each_waits_is_remembered() -> None:
    assert STATE.since({"a": 5.0, "gone": 1.0}, {"a": "2", "b": "1"}, 9.0) == {"a": 5.0, "b": 9.0}


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("Sun 03:00-05:00", (["Sun"], 180, 300)),
        ("Sat,Sun 00:00-24:00", (["Sat", "Sun"], 0, 1440)),
        ("23:00-01:00", (list(STATE.DAYS), 1380, 60)),
        ("Son 03:00-05:00", None),
        ("Sun 3-5", None),
        ("Sun 25:00-26:00", None),
        ("Sun 03:60-05:00", None),
        ("Sun 03:00-03:00", None),
        ("23:00-24:30", None),
        ("", None),
    ],
)
def test_windows(text: str, window: Any) -> None:
    assert STATE.parse_window(text) == window


@pytest.mark.parametrize(
    ("text", "weekday", "minute", "inside"),
    [
        ("Sun 03:00-05:00", 6, 180, True),
        ("Sun 03:00-05:00", 6, 299, True),
        ("Sun 03:00-05:00", 6, 300, False),
        ("Sun 03:00-05:00", 0, 200, False),
        ("Sun 23:00-01:00", 6, 1400, True),
        ("Sun 23:00-01:00", 0, 30, True),
        ("Sun 23:00-01:00", 6, 30, False),
        ("Sun 23:00-01:00", 0, 60, False),
    ],
)
def test_moments_in_windows(text: str, weekday: int, minute: int, inside: bool) -> None:
    assert STATE.in_window(STATE.parse_window(text), weekday, minute) is inside


@pytest.mark.parametrize(
    ("releases", "newest"),
    [
        (["6.12.9+deb13-amd64", "6.12.10+deb13-amd64"], "6.12.10+deb13-amd64"),
        (["6.8.0-79-generic", "6.8.0-101-generic"], "6.8.0-101-generic"),
        ([], ""),
    ],
)
def test_the_kernel_that_would_start(releases: list[str], newest: str) -> None:
    assert STATE.newest_kernel(releases) == newest


FREE = {
    "needed": True, "window": "Sun 03:00-05:00", "weekday": 6, "minute": 200, "users": [],
    "containers": [], "sessions": [], "busy": "", "driver": True, "kernel": "6.12.10",
    "kernel_has_driver": True,
}  # fmt: skip
DECISIONS: dict[str, tuple[dict[str, Any], str]] = {
    "all is free": ({}, ""),
    "a server without GPUs": ({"driver": False, "kernel_has_driver": False}, ""),
    "nothing asks for it": ({"needed": False}, "no reboot is needed"),
    "no window": ({"window": ""}, "no window is declared"),
    "a window that is none": ({"window": "sometimes"}, "no window is declared"),
    "outside of the window": ({"minute": 400}, "it is not Sun 03:00-05:00"),
    "another day": ({"weekday": 2}, "it is not Sun"),
    "a GPU is used": ({"users": ["process 7 (python) on GPU 0"]}, "process 7 (python)"),
    "it cannot be seen whether": ({"users": ["processes: unknown"]}, "processes: unknown"),
    "a container runs": ({"containers": ["trainer"]}, "container trainer runs"),
    "somebody is logged in": ({"sessions": ["ada"]}, "ada is logged in"),
    "packages are being installed": ({"busy": "apt or dpkg"}, "apt or dpkg"),
    "no module for the next kernel": ({"kernel_has_driver": False}, "kernel 6.12.10"),
}


@pytest.mark.parametrize("case", DECISIONS)
def test_a_reboot_is_refused_for_every_reason(case: str) -> None:
    changes, why = DECISIONS[case]
    decision = STATE.decide({**FREE, **changes})
    assert decision["reboot"] is not bool(why)
    assert why in "; ".join(decision["why"])


def test_all_reasons_are_told_at_once() -> None:
    decision = STATE.decide({**FREE, "minute": 0, "users": ["x"], "sessions": ["y"]})
    assert len(decision["why"]) == 3


def test_figures() -> None:
    text = STATE.metrics(
        {"security": {"a": "1"}, "other": {}, "oldest_seconds": 7.9, "reboot_required": True,
         "at": 1.5}
    )  # fmt: skip
    assert 'gpuferry_updates_pending{kind="security"} 1\n' in text
    assert text.count("# TYPE gpuferry_updates_pending gauge") == 1
    assert "gpuferry_reboot_required 1\n" in text
    assert "gpuferry_updates_oldest_seconds 7\n" in text


def test_the_program_on_the_server_is_given_everything_that_it_imports() -> None:
    """A module that is missing there shows only once it is needed."""
    folder = REPOSITORY / "playbooks/module_utils"
    known = {path.stem for path in folder.glob("*.py")}
    variables = yaml.safe_load((REPOSITORY / "roles/updates/vars/main.yml").read_text())
    shipped = set(variables["_updates_shared"])
    texts = [(REPOSITORY / "roles/updates/files/main.py").read_text()]
    texts += [(folder / f"{name}.py").read_text() for name in shipped]
    needed = set()
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ansible"):
                names = {alias.name for alias in node.names}
                needed |= {(node.module or "").rpartition(".")[2], *names} & known
    assert needed <= shipped
