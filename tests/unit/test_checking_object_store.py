"""What a store says about encryption at rest is judged by its answer, not by the request."""

from __future__ import annotations

import pytest

from gpuferry.checking.object_store import judge_encryption


@pytest.mark.parametrize(
    ("told", "required", "status", "measured"),
    [
        ({"a": "AES256"}, ["a"], "pass", "a: AES256"),
        ({"a": "aws:kms"}, [], "pass", "a: aws:kms"),
        ({"a": ""}, ["a"], "fail", "a: in clear"),
        ({"a": ""}, [], "not_measured", "a: in clear"),
        ({"a": "AES256", "b": ""}, ["a"], "not_measured", "a: AES256; b: in clear"),
        ({"a": "AES256", "b": ""}, ["b"], "fail", "a: AES256; b: in clear"),
    ],
)
def test_clear_objects_fail_where_encryption_is_required_and_never_pass(
    told: dict[str, str], required: list[str], status: str, measured: str
) -> None:
    answer = judge_encryption(told, required)
    assert (answer.status, answer.measured) == (status, measured)
