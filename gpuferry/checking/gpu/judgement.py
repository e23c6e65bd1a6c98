"""A judgement before it is a verdict, and the rules that hold for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gpuferry.checking.gpu.survey import Survey, Transcript
from gpuferry.verdict import Severity

SIMULATED = "simulated GPU"


@dataclass(frozen=True)
class Judgement:
    """What was found. `severity` and `next_step` stand in for the check's own where given."""

    status: Literal["pass", "fail", "not_measured"]
    measured: str
    expected: str = ""
    evidence: str = ""
    severity: Severity | None = None
    next_step: str = ""


def judge(ok: bool, measured: str, expected: str, evidence: str = "") -> Judgement:
    """Pass or fail."""
    return Judgement("pass" if ok else "fail", measured, expected, evidence)


def not_measured(reason: str, expected: str = "", evidence: str = "") -> Judgement:
    """Nothing could be measured."""
    return Judgement("not_measured", reason, expected, evidence)


def number_of(count: int, noun: str) -> str:
    """`1 GPU`, `2 GPUs`, `3 processes`."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def conclude(survey: Survey, judgement: Judgement) -> Judgement:
    """No pass without a GPU that answers, and none on a simulated one without saying so."""
    if judgement.status != "pass":
        return judgement
    if not survey.answering:
        reason = survey.no_nvml or "no GPU answers"
        return replace(judgement, status="not_measured", measured=f"no GPU to judge: {reason}")
    if survey.simulated and SIMULATED not in judgement.measured:
        return replace(judgement, measured=f"{judgement.measured} ({SIMULATED})")
    return judgement


def each_gpu(
    survey: Survey, expected: str, judge_one: Callable[[Transcript], Judgement]
) -> Judgement:
    """Judge every GPU that NVML lists: the worst decides; one that cannot be asked is no pass."""
    if survey.no_nvml:
        return not_measured(survey.no_nvml, expected)
    found = [judge_one(gpu) for gpu in survey.nvml.gpus]
    worst = next(s for s in ("fail", "not_measured", "pass") if any(j.status == s for j in found))
    bad = [(i, j) for i, j in enumerate(found) if j.status == worst]
    first = bad[0][1]
    return Judgement(
        first.status,
        _told(bad if worst != "pass" else list(enumerate(found)), len(found)),
        expected,
        "; ".join(
            dict.fromkeys(f"GPU {i}: {j.evidence}" for i, j in enumerate(found) if j.evidence)
        ),
        next((j.severity for _, j in bad if j.severity), None),
        next((j.next_step for _, j in bad if j.next_step), ""),
    )


def _told(judgements: Sequence[tuple[int, Judgement]], count: int) -> str:
    """What is the same for all is told once."""
    texts = {judgement.measured for _, judgement in judgements}
    if len(texts) == 1 and len(judgements) == count > 1:
        return f"{number_of(count, 'GPU')}: {texts.pop()}"
    return "; ".join(f"GPU {index}: {judgement.measured}" for index, judgement in judgements)
