"""What restic's answers mean, in the words of the two versions that Debian 12 and 13 have."""

from __future__ import annotations

from typing import Any

import pytest

from gpuferry.errors import SpecError, StepFailed
from gpuferry.operate.sealed import vault_of
from gpuferry.sealed import orders

VAULT = orders.Vault(
    "sets", "https://192.0.2.1", "sets", "us-east-1", "AK", "SECRET-1", "KEY-1", "CA"
)


def answer(code: int, err: str = "", out: str = "") -> dict[str, Any]:
    return {"code": code, "out": out, "err": err}


MISSING_14 = (
    "Fatal: unable to open config file: Stat: The specified key does not exist.\n"
    "Is there a repository at the following location?\ns3:https://192.0.2.1/sets\n"
)
REFUSED_14 = MISSING_14.replace("The specified key does not exist.", "Access Denied.")
UNTRUSTED_14 = MISSING_14.replace(
    "The specified key does not exist.", "x509: certificate signed by unknown authority"
)


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        (answer(1, MISSING_14), True),
        (answer(10, '{"message_type":"exit_error","code":10,"message":"Fatal: none"}'), True),
        # The old version asks whether there is a repository whatever went wrong.
        (answer(1, REFUSED_14), False),
        (answer(1, UNTRUSTED_14), False),
        (answer(12), False),
        (answer(0), False),
        ({"refused": "no restic"}, False),
    ],
)
def test_nothing_sealed_yet_is_told_from_a_store_that_cannot_be_read(
    said: dict[str, Any], missing: bool
) -> None:
    assert orders.is_missing(said) is missing


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        (
            answer(12, '{"message":"Fatal: wrong password or no key found"}'),
            StepFailed,
            "another key",
        ),
        (answer(1, "Fatal: wrong password or no key found\n"), StepFailed, "another key"),
        (
            answer(1, REFUSED_14),
            StepFailed,
            "faces: unable to open config file: Stat: Access Denied.",
        ),
        (answer(3, "error: open /x: permission denied\n"), StepFailed, "snapshot is incomplete"),
        (answer(137), StepFailed, "exit code 137"),
        ({"refused": "not empty"}, SpecError, "/data/x is not empty; nothing is overwritten"),
    ],
)
def test_a_failure_is_told_in_one_sentence(
    said: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        orders.expect(said, "faces", "/data/x")


@pytest.mark.parametrize("name", ["", "A", "a,b", "-x", "x/y", "ü", "a" * 65])
def test_a_name_that_restic_would_take_apart_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="accepted: lower-case letters"):
        orders.set_name(name)


def test_no_key_is_in_an_argument_or_in_the_environment() -> None:
    for order in (orders.push(VAULT, "x", "/x", "h"), orders.pull(VAULT, "x", "/x")):
        shown = repr({key: value for key, value in order.items() if key != "files"})
        assert "SECRET-1" not in shown
        assert "KEY-1" not in shown
    assert "SECRET-1" not in repr(VAULT)
    assert "KEY-1" not in repr(VAULT)


def test_a_bucket_is_chosen_when_there_is_one_and_asked_for_otherwise() -> None:
    fields = {k: v for k, v in vars(VAULT).items() if k != "key"}
    one = {"object_store_access": {"sets": fields}, "data_keys": {"sets": "KEY-1"}}
    assert vault_of(one, None) == VAULT
    two = {**one, "object_store_access": {"sets": fields, "more": fields}}
    with pytest.raises(SpecError, match="Name the bucket with --store; the stack has: sets, more"):
        vault_of(two, None)
    with pytest.raises(SpecError, match="has no object store 'x'"):
        vault_of(one, "x")
    with pytest.raises(SpecError, match="more has no key for sealed data yet"):
        vault_of(two, "more")
