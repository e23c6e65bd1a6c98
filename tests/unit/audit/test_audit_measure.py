"""A machine is measured with its own python3, here and over SSH, also when it is stopped early."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpuferry.audit.measure.arguments import seconds_of
from gpuferry.audit.measure.row import row_text
from gpuferry.audit.measure.run import measure
from gpuferry.audit.read.inventory import read_inventory
from gpuferry.errors import ServerUnreachable, SpecError
from gpuferry.operate import auditing
from tests.conformance.ssh_server import ADDRESS, SSHServer

QUIET = {"every": 0.2, "say": lambda text: None}
JOB = "import time; keep = bytearray(120 << 20)\nwhile time.process_time() < 60: pass"


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    """One busy core and 120 MiB."""
    process = subprocess.Popen([sys.executable, "-c", JOB])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_running_job_is_measured_and_not_disturbed(
    job: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"x" * 5000)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/b").write_bytes(b"x" * 100)
    os.link(tmp_path / "a", tmp_path / "again")
    (tmp_path / "link").symlink_to("/")
    found = measure(ssh=None, seconds=4, pid=job.pid, data=tmp_path, **QUIET)
    assert found["samples"] >= 3
    assert 0.02 < found["rates"]["cpu"]["mean"] < 1.2  # other jobs may share the core
    assert found["ram"]["peak"] > 120 << 20
    assert (found["files"]["count"], found["files"]["bytes"]) == (2, 5100)
    assert found["files"]["complete"]
    assert found["files"]["histogram"]["to 64 KiB"] == 1
    assert found["versions"]["python"] == sys.version.split()[0]
    assert not found["interrupted"]
    assert job.poll() is None


def test_a_row_that_was_measured_can_be_read_again(tmp_path: Path) -> None:
    found = measure(ssh=None, seconds=1, pid=None, data=None, **QUIET)
    path = tmp_path / "row.yaml"
    path.write_text(row_text("it's", "train", found))
    (w,) = read_inventory(path)
    assert w.id == "it's"
    assert w.values["peak_ram"].basis == "measured"
    assert w.number("cpu_cores_now") >= 0
    if not found["gpus"]:
        assert "GPU: not measured" in path.read_text()
        assert not w.has("peak_vram")


def test_the_end_of_the_job_ends_the_measurement() -> None:
    # Long enough for the sampler's start on a busy machine.
    process = subprocess.Popen(["sleep", "5"])
    threading.Thread(target=process.wait).start()
    started = time.monotonic()
    found = measure(ssh=None, seconds=120, pid=process.pid, data=None, **QUIET)
    assert time.monotonic() - started < 60
    assert found["ended"]


def test_a_job_that_is_not_there_is_named() -> None:
    with pytest.raises(SpecError, match="there is no process 4194303"):
        measure(ssh=None, seconds=1, pid=4194303, data=None, **QUIET)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_keeps_what_was_seen(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "gpuferry", "audit", "measure", "--id", "x", "--for", "1h",
               "--every", "0.2", "--out", str(tmp_path / "row.yaml")]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    assert "measuring this machine" in process.stderr.readline()
    assert "first sample" in process.stderr.readline()
    os.killpg(process.pid, number)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130, error
    text = (tmp_path / "row.yaml").read_text()
    assert "interrupted" in text
    assert yaml.safe_load(text)["workloads"][0]["basis"] == "measured"


def test_the_sampler_lowers_its_priority() -> None:
    sampler = Path(__file__).parents[3] / "gpuferry/audit/measure/sampler.py"
    script = "ARGUMENTS = {'seconds': 3, 'every': 0.2}\n" + sampler.read_text()
    with subprocess.Popen(
        [sys.executable, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(script)
        process.stdin.close()
        assert json.loads(process.stdout.readline())["samples"] == 1
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
        process.terminate()
        last = json.loads(process.stdout.read().splitlines()[-1])
    assert last["interrupted"]


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[Path]:
    """A real SSH server on the loopback interface, and the configuration to reach it."""
    server = SSHServer()
    key = tmp_path / "key"
    key.write_text(server.user_private)
    key.chmod(0o600)
    (tmp_path / "known").write_text(f"[{ADDRESS}]:{server.port} {server.host_key}\n")
    config = tmp_path / "config"
    config.write_text(
        f"Host trainer\n HostName {ADDRESS}\n Port {server.port}\n User me\n IdentityFile {key}\n"
        f" IdentitiesOnly yes\n UserKnownHostsFile {tmp_path / 'known'}\n"
        f"Host stranger\n HostName {ADDRESS}\n Port {server.port}\n User me\n IdentityFile {key}\n"
        f" UserKnownHostsFile {tmp_path / 'nobody'}\n"
    )
    server.start()
    try:
        yield config
    finally:
        server.close()


def test_another_machine_is_measured_over_ssh(ssh: Path) -> None:
    found = measure(ssh="trainer", seconds=1, pid=None, data=None, ssh_config=ssh, **QUIET)
    assert found["samples"] >= 2
    assert found["cpus"] == os.cpu_count()


def test_an_unknown_host_key_is_refused(ssh: Path) -> None:
    with pytest.raises(ServerUnreachable, match="stranger cannot be reached"):
        measure(ssh="stranger", seconds=1, pid=None, data=None, ssh_config=ssh, **QUIET)


@pytest.mark.parametrize("host", ["-oProxyCommand=x", " ", ""])
def test_a_host_that_is_an_option_is_refused(host: str) -> None:
    with pytest.raises(SpecError, match="a host is needed"):
        measure(ssh=host, seconds=1, pid=None, data=None, **QUIET)


@pytest.mark.parametrize(("text", "seconds"), [("2h", 7200), ("90s", 90), ("1h30m", 5400)])
def test_how_long(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["2", "0s", "-1h", "60 d", "soon"])
def test_how_long_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="--for"):
        seconds_of(text)


def test_a_wrong_kind_is_said_before_anything_is_measured() -> None:
    with pytest.raises(SpecError, match="accepted: train"):
        row_text("x", "learn", {})


@pytest.mark.parametrize("name", ["two\nlines", "", "a\x1b[31m"])
def test_a_name_that_no_table_takes_is_refused_before(name: str) -> None:
    with pytest.raises(SpecError, match="--id"):
        row_text(name, "train", {})


def test_the_library_that_reserves_memory_is_in_the_row() -> None:
    versions = {
        "python": "3.12", "torch": "2.6", "numpy": "2.1", "tensorflow": "2.18", "triton": "3.2",
        "transformers": "4.51", "accelerate": "1.2", "vllm": "0.8",
    }  # fmt: skip
    text = row_text("x", "infer", {"versions": versions})
    assert "framework: 'vllm 0.8, torch 2.6, transformers 4.51'" in text
    assert "may reserve GPU memory in advance" in text
    del versions["vllm"]
    assert "may reserve" not in row_text("x", "train", {"versions": versions})
    assert "may reserve" in row_text("x", "train", {"versions": {"jax": "0.5", "numpy": "2"}})


def test_a_folder_that_is_not_there_ends_the_measurement_at_once(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no folder"):
        measure(ssh=None, seconds=60, pid=None, data=tmp_path / "none", **QUIET)


@pytest.mark.parametrize(
    ("out", "why"),
    [("there.yaml", "is there already"), ("none/row.yaml", "is not there"), ("folder", "already")],
)
def test_where_the_row_cannot_go_is_said_before_anything_is_measured(
    tmp_path: Path, out: str, why: str
) -> None:
    (tmp_path / "there.yaml").write_text("workloads: []")
    (tmp_path / "folder").mkdir()
    with pytest.raises(SpecError, match=why):
        auditing.measure(
            "x", "train", ssh=None, seconds=3600, pid=None, data=None, out=tmp_path / out,
            every=1, ssh_config=None, as_json=False,
        )  # fmt: skip
    assert (tmp_path / "there.yaml").read_text() == "workloads: []"
