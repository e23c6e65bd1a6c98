"""Marks for cases of parametrised tests."""

from __future__ import annotations

from typing import Any

import pytest


def slow(*cases: Any) -> list[Any]:
    """Cases that only `--slow` runs; a tuple is one case of several arguments."""
    as_tuples = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=pytest.mark.slow) for case in as_tuples]
