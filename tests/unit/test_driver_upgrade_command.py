"""`ferry driver upgrade`: what may be asked for, and how an outcome is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuferry.cli.app import app
from gpuferry.driver.refusal import Refusal
from gpuferry.driver.upgrade import Move, UpgradePlan
from gpuferry.errors import SpecError
from gpuferry.operate import driver_upgrade
from gpuferry.operate.upgrading import Marker, Outcome, Result

MOVE = Move(name="nvidia-smi", old="550.1", new="580.2")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--to", "newest"], "accepted: a branch such as 580"),
        (["--to", ""], "--to '': accepted: a branch such as 580"),
        (["--to", "580-server"], "accepted: a branch such as 580"),
        (["--to", "580", "--accept"], "only one of"),
        (["--accept", "--rollback"], "only one of"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_asked(
    words: list[str], says: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(app, ["driver", "upgrade", "gpu-1", "-C", str(tmp_path), *words])
    assert isinstance(result.exception, SpecError)
    assert says in str(result.exception)


@pytest.mark.parametrize(
    ("result", "code"),
    [("planned", 0), ("nothing", 0), ("upgraded", 0), ("accepted", 0), ("refused", 1),
     ("rolled_back", 1), ("broken", 1)],
)  # fmt: skip
def test_only_a_server_that_is_as_wanted_is_success(result: Result, code: int) -> None:
    assert Outcome(result, "").exit_code == code


def printed(capsys: pytest.CaptureFixture[str], outcome: Outcome) -> str:
    driver_upgrade._print("gpu-1", outcome)
    return capsys.readouterr().out


def test_a_plan_tells_what_moves_and_what_it_interrupts(capsys: pytest.CaptureFixture[str]) -> None:
    plan = UpgradePlan.model_validate({
        "packages": [{"name": "nvidia-smi", "version": "580.2"}], "moves": [MOVE], "reboot": True,
        "disturbs": ["container train"], "notes": ["the kernel stays"],
    })  # fmt: skip
    text = printed(capsys, Outcome("planned", "nothing was changed", [MOVE], plan))
    for word in ("550.1", "580.2", "reboot: needed", "container train", "the kernel stays"):
        assert word in text


def test_a_refusal_is_told_with_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = Refusal(reason="pulls_kernel", sentence="it pulls a kernel", options=["allow it"])
    text = printed(capsys, Outcome("refused", "it pulls a kernel. allow it", [],
                                   UpgradePlan(refusal=refusal)))  # fmt: skip
    assert "refused: it pulls a kernel. allow it" in text
    assert "interrupts" not in text


def test_the_marker_holds_all_that_a_way_back_needs() -> None:
    raw: dict[str, Any] = {
        "phase": "installing", "to": "", "old": {"a": "1", "b": ""}, "new": {"a": "2", "b": "1"},
        "files": {"a": "/x/a.deb"}, "auto": ["a"], "reboot": False, "boot_id": "x", "since": "now",
    }  # fmt: skip
    marker = Marker.model_validate(json.loads(json.dumps(raw)))
    assert [str(m) for m in marker.moves] == ["a 1 -> 2", "b (absent) -> 1"]
