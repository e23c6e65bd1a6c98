"""What ssh says is understood, and secrets do not outlive the run that put them down."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from gpuferry.nodes import session as session_module
from gpuferry.nodes.private_dir import private_directory, sweep_leftovers
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession, wait_for_ssh
from gpuferry.nodes.ssh_failure import SshFailure, explain, fingerprint

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
SERVER = Server(
    name="gpu-1",
    address="192.0.2.7",
    user="ferry",
    host_key=KEY,
    private_address="192.0.2.7",
    instance_id="i",
    private_key="CANARY-KEY",
)
CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
The fingerprint for the ED25519 key sent by the remote host is
SHA256:vlk8iE1MY0uQsuwcYB5APBw+WpdMYml0ZOk5ABOoJ4g.
Please contact your system administrator.
Host key for gpu-1 has changed and you have requested strict checking.
Host key verification failed.
"""


@pytest.mark.parametrize(
    ("stderr", "reason", "retryable"),
    [
        ("ssh: connect to host 192.0.2.7 port 22: Connection refused", "refused", True),
        ("ssh: connect to host 192.0.2.7 port 22: Connection timed out", "timeout", True),
        ("Connection timed out during banner exchange", "timeout", True),
        ("ssh: connect to host 192.0.2.7 port 22: No route to host", "unroutable", True),
        ("kex_exchange_identification: Connection closed by remote host", "closed", True),
        ("kex_exchange_identification: read: Connection reset by peer", "closed", True),
        ("Connection reset by 192.0.2.7 port 22", "closed", True),
        (
            '"System is booting up. Unprivileged users are not permitted"\nx: Permission denied',
            "closed",
            True,
        ),
        (
            "ssh: Could not resolve hostname nope.invalid: Name or service not known",
            "unresolved",
            False,
        ),
        ("ferry@192.0.2.7: Permission denied (publickey,password).", "denied", False),
        ("Received disconnect from 192.0.2.7: Too many authentication failures", "denied", False),
        (CHANGED, "host_key", False),
        (
            "Unable to negotiate: no matching host key type found. Their offer: rsa-sha2-512",
            "host_key",
            False,
        ),
        ("something new", "other", False),
        ("", "other", False),
    ],
)
def test_what_ssh_says_is_classified(stderr, reason, retryable):
    failure = explain(SERVER, stderr)
    assert (failure.reason, failure.retryable) == (reason, retryable)
    assert str(failure).startswith("gpu-1 (192.0.2.7 port 22)")


def test_a_wrong_host_key_is_reported_with_both_fingerprints():
    text = str(explain(SERVER, CHANGED))
    assert f"Expected {fingerprint(KEY)}" in text
    assert "found SHA256:vlk8iE1MY0uQsuwcYB5APBw+WpdMYml0ZOk5ABOoJ4g (ED25519)" in text


def test_fingerprint_is_the_one_that_openssh_shows(tmp_path):
    key = tmp_path / "key.pub"
    key.write_text(KEY)
    shown = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True)
    assert fingerprint(KEY) in shown.stdout


@pytest.fixture
def private_base(tmp_path, monkeypatch):
    monkeypatch.setattr("gpuferry.nodes.private_dir.runtime_base", lambda: tmp_path)
    return tmp_path


def test_a_session_is_private_and_gone_afterwards(private_base):
    with contextlib.suppress(KeyboardInterrupt), SshSession([SERVER]) as session:
        assert session.directory.stat().st_mode & 0o777 == 0o700
        assert {p.stat().st_mode & 0o777 for p in session.directory.iterdir()} == {0o600}
        assert "CANARY-KEY" not in session.config_path.read_text()
        raise KeyboardInterrupt
    assert list(private_base.iterdir()) == []


def test_openssh_itself_reads_the_configuration_as_strict(private_base):
    with SshSession([SERVER]) as session:
        argv = ["ssh", "-G", "-F", session.config_path, "gpu-1"]
        told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {
        "stricthostkeychecking true",
        "globalknownhostsfile /dev/null",
        "hostkeyalias gpu-1",
        "hostkeyalgorithms ssh-ed25519",
        "batchmode yes",
        "passwordauthentication no",
        "updatehostkeys false",
    } <= set(told)


def test_only_directories_of_dead_runs_are_swept(private_base):
    (private_base / "gpuferry-dead").mkdir()
    (private_base / "gpuferry-dead" / "0.key").write_text("secret")
    (private_base / "somebody-else").mkdir()
    with private_directory(private_base) as mine:
        assert sweep_leftovers(private_base) == []
        assert mine.is_dir()
        assert not (private_base / "gpuferry-dead").exists()
    assert (private_base / "somebody-else").is_dir()


HOLD = """\
import signal, sys, time, pathlib
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a test run under nohup would pass on "ignore"
from gpuferry.nodes.private_dir import private_directory
with private_directory(pathlib.Path(sys.argv[1])) as path:
    print(path, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("number", "left"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGKILL, 1)]
)
def test_a_stopped_run_cleans_up_and_a_killed_one_is_swept(tmp_path, number, left):
    argv = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
        assert holder.stdout.readline()
        assert sweep_leftovers(tmp_path) == []
        os.kill(holder.pid, number)
    assert len(list(tmp_path.iterdir())) == left
    sweep_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


class Attempts:
    """Stands in for SshSession.run: fails with the given texts, then succeeds."""

    def __init__(self, *stderrs):
        self.stderrs = list(stderrs)

    def __call__(self, server, command, **options):
        if self.stderrs:
            raise explain(server, self.stderrs.pop(0))


def test_waiting_goes_on_while_the_server_boots(private_base, monkeypatch):
    monkeypatch.setattr(
        session_module.SshSession, "run", Attempts("Connection refused", "Connection reset")
    )
    said = []
    wait_for_ssh(SERVER, 5, on_progress=said.append, pause_seconds=0)
    assert ["refused" in text or "closed" in text for text in said] == [True, True]


def test_waiting_ends_at_the_stated_deadline(private_base, monkeypatch):
    monkeypatch.setattr(session_module.SshSession, "run", Attempts(*["Connection refused"] * 1000))
    started = time.monotonic()
    with pytest.raises(SshFailure, match=r"gave up after .* \(deadline 1 s"):
        wait_for_ssh(SERVER, 1, pause_seconds=0.2)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    "stderr", [CHANGED, "Permission denied (publickey).", "Could not resolve hostname x"]
)
def test_what_waiting_cannot_cure_is_raised_at_once(private_base, monkeypatch, stderr):
    attempts = Attempts(stderr, stderr)
    monkeypatch.setattr(session_module.SshSession, "run", attempts)
    with pytest.raises(SshFailure):
        wait_for_ssh(SERVER, 60)
    assert len(attempts.stderrs) == 1
