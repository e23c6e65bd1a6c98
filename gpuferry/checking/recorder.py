"""The `verdict` fixture: how a check says what it found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gpuferry.verdict import Severity

if TYPE_CHECKING:
    from gpuferry.checking.gpu.judgement import Judgement


@dataclass(frozen=True)
class Answer:
    """What a check said."""

    status: Literal["pass", "fail", "not_measured"]
    measured: str
    expected: str
    evidence: str
    severity: Severity | None = None
    next_step: str = ""


@dataclass
class Recorder:
    """Takes a check's answer; the plugin insists on exactly one."""

    answers: list[Answer] = field(default_factory=list)

    def judge(self, ok: bool, *, measured: str, expected: str, evidence: str = "") -> None:
        """Pass when `ok`, fail otherwise; say in both cases what was measured and expected."""
        self.answers.append(Answer("pass" if ok else "fail", measured, expected, evidence))

    def not_measured(self, reason: str, *, expected: str = "") -> None:
        """Say that there was nothing to measure, or no way to; never good news."""
        self.answers.append(Answer("not_measured", reason, expected, ""))

    def take(self, judgement: Judgement) -> None:
        """Take over what a pure function judged."""
        self.answers.append(Answer(**vars(judgement)))
