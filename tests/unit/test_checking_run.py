"""A run over servers never ends in silence."""

import time

import pytest

from gpuferry.checking import run as run_module
from gpuferry.checking import run_checks
from gpuferry.errors import SpecError
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession
from gpuferry.nodes.ssh_failure import explain

EXPECTED = {"hostname": "gpu-1", "user": "ferry", "roles": ["base"]}


def a_server(name="gpu-1"):
    return Server(
        name=name,
        address="192.0.2.1",
        user="ferry",
        host_key="ssh-ed25519 AAAA",
        private_address="192.0.2.1",
        instance_id="i",
        private_key="k",
    )


@pytest.fixture
def reachable(monkeypatch):
    """Let the login succeed; the checks of these tests never use the connection."""
    monkeypatch.setattr(SshSession, "run", lambda *arguments, **options: None)


def write_check(directory, body):
    text = "import os, time\nfrom gpuferry.checking.mark import check\n"
    text += f'@check("base.it", deadline_seconds=60)\ndef test_it(verdict):\n    {body}\n'
    (directory / "test_base.py").write_text(text)


def test_verdicts_stream_one_by_one(tmp_path, reachable):
    write_check(tmp_path, "verdict.not_measured('x')")
    seen = []
    verdicts = run_checks(
        [a_server()], {"gpu-1": EXPECTED}, on_verdict=seen.append, checks_directory=tmp_path
    )
    assert seen == verdicts
    assert [v.id for v in verdicts] == ["server.reachable", "base.it"]


def test_a_check_process_that_dies_is_a_failure(tmp_path, reachable):
    write_check(tmp_path, "os._exit(3)")
    verdicts = run_checks([a_server()], {"gpu-1": EXPECTED}, checks_directory=tmp_path)
    assert (verdicts[-1].id, verdicts[-1].status) == ("checks.completed", "fail")


def test_checks_that_do_not_end_are_a_failure_at_the_deadline(tmp_path, reachable):
    write_check(tmp_path, "time.sleep(60)")
    started = time.monotonic()
    verdicts = run_checks(
        [a_server()], {"gpu-1": EXPECTED}, deadline_seconds=2, checks_directory=tmp_path
    )
    assert time.monotonic() - started < 10
    assert "did not end within 2 s" in verdicts[-1].measured


def test_an_unreachable_server_fails_and_the_others_are_still_judged(tmp_path, monkeypatch):
    def run(session, server, command, **options):
        if server.name == "gpu-2":
            raise explain(server, "ssh: connect to host x port 22: Connection refused")

    monkeypatch.setattr(SshSession, "run", run)
    write_check(tmp_path, "verdict.not_measured('x')")
    servers = [a_server(), a_server("gpu-2")]
    verdicts = run_checks(
        servers, dict.fromkeys(["gpu-1", "gpu-2"], EXPECTED), checks_directory=tmp_path
    )
    by_key = {(v.server, v.id): v for v in verdicts}
    assert by_key["gpu-2", "server.reachable"].status == "fail"
    assert "connection refused" in by_key["gpu-2", "server.reachable"].evidence
    assert ("gpu-1", "base.it") in by_key


def test_no_server_at_all_is_a_failure():
    assert [v.status for v in run_checks([], {})] == ["fail"]


@pytest.mark.parametrize(
    ("expectations", "message"),
    [
        ({}, "nothing says what this server should be"),
        ({"gpu-1": {**EXPECTED, "rolls": []}}, "rolls"),
        ({"gpu-1": {**EXPECTED, "ssh_port": "x"}}, "ssh_port"),
    ],
)
def test_malformed_expectations_are_named(expectations, message):
    with pytest.raises(SpecError, match=message):
        run_checks([a_server()], expectations)


def test_the_job_carries_the_store_keys_that_pydantic_masks():
    store = {
        "name": "s",
        "endpoint": "https://x",
        "bucket": "b",
        "access_key": "a",
        "secret_key": "CANARY",
    }
    job = run_module.Job(
        target={"name": "n", "address": "a", "port": 1, "user": "u", "host_key": "k"},
        expectations={**EXPECTED, "object_stores": [store]},
        checks_directory="/",
        ssh_config=None,
        key_path=None,
    )
    assert "CANARY" not in repr(job)
    assert "CANARY" in run_module._with_secrets(job)
