"""What restic's answers mean, in the words of the two versions that Debian 12 and 13 have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuferry.errors import SpecError, StepFailed
from gpuferry.operate.sealed import access, push_with, vault_of
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
        (answer(3, "error: open /x: permission denied\n"), StepFailed, "nothing was kept"),
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


def test_buckets_are_known_without_the_outputs_of_a_deployment_that_went_well() -> None:
    store = {k: v for k, v in vars(VAULT).items() if k != "key"}
    kept = {
        "-inventory": [
            {"expectations": {"object_stores": [{**store, "server_side_encryption": True}]}}
        ],
        f"::{VAULT.name}-data-key": [{"key": "KEY-1"}],
    }
    found = access(lambda suffix: kept.get(suffix, []), {})
    assert vault_of(found, None) == VAULT
    old = {"object_store_access": {"old": store}, "data_keys": {"old": "KEY-2"}}
    assert access(lambda _: [], old) == old


SUMMARY = (
    '{"message_type":"summary","total_files_processed":2,"total_bytes_processed":4,'
    '"data_added":4,"snapshot_id":"10f063517e806a78"}'
)


@pytest.mark.parametrize(
    ("forgotten", "says"),
    [
        (answer(0), "nothing was kept: read /x"),
        (answer(1, "Fatal: locked"), "snapshot 10f06351 is to be removed: locked"),
    ],
)
def test_a_snapshot_that_lacks_files_does_not_stay_as_the_newest(
    forgotten: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    asked: list[list[str]] = []

    def run(order: dict[str, Any]) -> dict[str, Any]:
        asked.append(order["arguments"])
        verb = order["arguments"][0]
        return {"backup": answer(3, "read /x", SUMMARY), "forget": forgotten}.get(verb, answer(0))

    with pytest.raises(StepFailed, match=says):
        push_with(run, VAULT, "faces", "/data/faces", "here")
    assert asked[-1] == ["forget", "10f06351"]


def test_setting_a_repository_up_is_not_cut_short() -> None:
    assert orders.init(VAULT)["seconds"] is None


def run_restic(order: dict[str, Any], path: Path, **environment: str) -> dict[str, Any]:
    """The program as it runs on servers, with a restic that prints its environment."""
    path.mkdir()
    (path / "restic").write_text("#!/bin/sh\nexec env\n")
    (path / "restic").chmod(0o755)
    program = Path(orders.__file__).with_name("run_restic.py")
    done = subprocess.run(
        [sys.executable, "-I", str(program)],
        input=json.dumps(order).encode(),
        env={"PATH": f"{path}:{os.environ['PATH']}", **environment},
        capture_output=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def test_somebodys_own_credentials_do_not_come_before_the_stacks(tmp_path: Path) -> None:
    theirs = {
        "AWS_ACCESS_KEY_ID": "THEIRS", "AWS_PROFILE": "work", "RESTIC_PASSWORD": "theirs",
        "RESTIC_REPOSITORY_FILE": "/x", "HTTPS_PROXY": "http://192.0.2.9",
    }  # fmt: skip
    seen = run_restic(orders.order(VAULT, ["snapshots"]), tmp_path / "bin", **theirs)["out"]
    assert "THEIRS" not in seen
    assert "theirs" not in seen
    assert "AWS_PROFILE" not in seen
    assert "RESTIC_REPOSITORY_FILE" not in seen
    assert "RESTIC_REPOSITORY=s3:https://192.0.2.1/sets/gpuferry-sealed" in seen
    assert "HTTPS_PROXY=http://192.0.2.9" in seen


def test_a_link_is_refused_before_anything_is_restored(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    order = orders.pull(VAULT, "faces", str(tmp_path / "link"))
    assert run_restic(order, tmp_path / "bin") == {"refused": "link"}
    with pytest.raises(SpecError, match="symbolic link"):
        orders.expect({"refused": "link"}, "faces", "/data/link")
