"""What a person gives as a secret's value is what a job reads."""

from __future__ import annotations

import pytest

from gpuferry.errors import SpecError
from gpuferry.operate.secrets import MOST_BYTES, checked_value

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("token", "token"),
        ("token\n", "token"),
        ("token\r\n", "token"),
        # OpenSSH: "error in libcrypto" without the last newline.
        (KEY, KEY),
        (KEY.replace("\n", "\r\n"), KEY.replace("\n", "\r\n")),
        ("a\nb", "a\nb"),
        ("token\n\n", "token\n\n"),
    ],
)
def test_only_the_newline_that_ends_a_single_line_is_taken_off(given: str, kept: str) -> None:
    assert checked_value(given) == kept


@pytest.mark.parametrize("given", ["", "\n", " \n", "a\0b", "x" * (MOST_BYTES + 1)])
def test_what_cannot_be_kept_is_refused_and_not_repeated(given: str) -> None:
    with pytest.raises(SpecError) as refused:
        checked_value(given)
    assert "xxx" not in str(refused.value)
