"""What a check function carries: its identity, and what to do when it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from gpuferry.checking.expectations import Expectations
from gpuferry.verdict import Severity

CONVERGE = "run: ./ferry converge {server}"


@dataclass(frozen=True)
class CheckInfo:
    """The arguments of `@check`, plus what the function's docstring promises."""

    id: str
    severity: Severity
    next_step: str
    deadline_seconds: int
    applies: Callable[[Expectations], bool]
    promise: str


def check(
    identity: str,
    *,
    severity: Severity = "major",
    next_step: str = CONVERGE,
    deadline_seconds: int = 20,
    applies: Callable[[Expectations], bool] = lambda expectations: True,
) -> pytest.MarkDecorator:
    """Mark a function as the check `identity`, which answers within `deadline_seconds`.

    It is left out where it does not apply to what a server is expected to be.
    `next_step` is shown when the check fails; `{server}` in it becomes the server's name. The first
    line of the function's docstring says what is expected, and stands in where a check breaks off.
    """
    return pytest.mark.check(
        id=identity,
        severity=severity,
        next_step=next_step,
        deadline_seconds=deadline_seconds,
        applies=applies,
    )


def info_of(item: pytest.Item) -> CheckInfo | None:
    """Return what `@check` says about a collected function, None when it is not marked."""
    mark = item.get_closest_marker("check")
    if mark is None:
        return None
    docstring = getattr(getattr(item, "function", None), "__doc__", None) or ""
    promise = docstring.strip().split("\n")[0] or "the check ends with a verdict"
    return CheckInfo(promise=promise, **mark.kwargs)
