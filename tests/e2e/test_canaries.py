"""A canary in every place where a secret can enter; afterwards it sings nowhere.

The life of one stack: preview, up, failing up, converge, check, a killed run, down. All the while
every process' arguments and environment are looked at. What cannot be had here: a cloud provider's
token, and a become password, which gpuferry does not take.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuferry.nodes.local.docker import docker

from .conftest import SERVER, NewStack, Stack

# Where a run keeps things for its own time, beside the stack's own folders.
SHARED = (Path("/tmp"), Path("/dev/shm"), Path("/var/tmp"), Path("/run"))
MOST_BYTES = 64 << 20


@dataclass
class Watch:
    """Looks at all processes all the time, and keeps all that was printed."""

    canaries: dict[str, str]
    seen: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)
    rounds: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.is_set():
            self.rounds += 1
            for process in Path("/proc").glob("[0-9]*"):
                for part in ("cmdline", "environ"):
                    self._read(process / part)
            time.sleep(0.05)

    def _read(self, path: Path) -> None:
        try:
            text = path.read_bytes()
        except OSError:
            return
        for name, canary in list(self.canaries.items()):
            # What the user has in his own environment is in that of all he starts.
            if canary.encode() in text and not (name == "env" and path.name == "environ"):
                words = (path.parent / "cmdline").read_bytes().decode(errors="replace")
                self.seen.add(f"{name} in {path.name} of {words.replace(chr(0), ' ')[:80]}")


@dataclass
class Life:
    """One stack, its canaries and what watches them."""

    stack: Stack
    watch: Watch

    @property
    def canaries(self) -> dict[str, str]:
        """Name to value."""
        return self.watch.canaries

    def ferry(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        """Run ferry; all it prints is kept."""
        done = self.stack.ferry(*arguments, code=code, stdin=stdin)
        self.watch.said.append(done.stdout + done.stderr)
        return done.stdout + done.stderr

    def on_server(self, script: str) -> str:
        """What a script prints on the server, as root."""
        return self.stack.ferry("ssh", "gpu-1", "--", "sudo", "bash", "-s", stdin=script).stdout

    def learn(self) -> None:
        """The secrets that the deployment made itself."""
        done = self.stack.shell("pulumi stack export --show-secrets")
        assert done.returncode == 0, done.stderr
        for resource in json.loads(done.stdout)["deployment"]["resources"]:
            if not resource["urn"].endswith("-inventory"):
                continue
            entry = json.loads(json.loads(resource["outputs"]["stdout"]["plaintext"]))
            self.canaries["deploy-key"] = entry["server"]["private_key"].splitlines()[3]
            self.canaries["s3-key"] = entry["expectations"]["object_stores"][0]["secret_key"]


@pytest.fixture(scope="module")
def life(_baked: None, new_stack: NewStack) -> Iterator[Life]:
    stack = new_stack()
    mark = f"canary-{stack.name}-"
    names = ("token", "second", "third", "env", "stdin", "malformed", "misplaced")
    watch = Watch({name: f"{mark}{name}-5e1f" for name in names})
    stack.environment |= {
        "HF_TOKEN": watch.canaries["env"],
        "ANSIBLE_BECOME_PASS": watch.canaries["env"],
    }
    stack.declare(servers=[SERVER], object_stores=[{"name": "datasets"}])
    watch.start()
    try:
        yield Life(stack, watch)
    finally:
        watch.end()


def test_a_value_in_clear_or_in_the_wrong_place_is_refused_and_not_repeated(life: Life) -> None:
    for wrong in (
        {"token": {"value": life.canaries["malformed"]}},
        {"token": life.canaries["malformed"]},
        {"token": [life.canaries["malformed"]]},
        life.canaries["malformed"],
        {life.canaries["malformed"].upper(): {"value": {"secure": "v1:x"}}},
    ):
        life.stack.declare(servers=[SERVER], secrets=wrong)
        life.ferry("preview", code=2)
    life.stack.declare(servers=[SERVER], object_stores=[{"name": "datasets"}])
    assert "is empty" in life.ferry("secret", "set", "token", code=2, stdin="\n")
    zero = life.canaries["malformed"] + "\0"
    assert "zero byte" in life.ferry("secret", "set", "token", code=2, stdin=zero)
    said = life.ferry("secret", "rotate", "token", code=2, stdin=life.canaries["malformed"])
    assert "it has none" in said
    # In the place of the name: an argument, so that only what ferry does with it can be judged.
    shown = life.stack.ferry("secret", "set", "A_" + life.canaries["misplaced"], code=2).stderr
    assert life.canaries.pop("misplaced") not in shown
    life.watch.seen = {sighting for sighting in life.watch.seen if "misplaced" not in sighting}


def test_secrets_are_set_before_there_is_a_server(life: Life) -> None:
    for name in ("token", "second"):
        life.ferry("secret", "set", name, stdin=life.canaries[name] + "\n")
    listed = json.loads(life.ferry("secret", "list", "--json"))["secrets"]
    assert [(s["name"], s["servers"]) for s in listed] == [
        ("second", ["gpu-1"]),
        ("token", ["gpu-1"]),
    ]
    assert all(s["changed"].endswith("Z") for s in listed)
    life.ferry("preview")


def test_up_delivers_them(life: Life) -> None:
    life.ferry("up")
    life.learn()
    assert life.on_server("cat /run/gpuferry/secrets/token") == life.canaries["token"]


def test_a_failing_rotation_and_the_next_one(life: Life) -> None:
    life.on_server("mkdir -p /root/d; mount --bind /root/d /run/gpuferry")
    said = life.ferry("secret", "rotate", "token", code=1, stdin=life.canaries["third"])
    assert "not in memory" in said
    life.on_server("umount /run/gpuferry")
    life.ferry("secret", "rotate", "token", stdin=life.canaries["third"])
    assert life.on_server("cat /run/gpuferry/secrets/token") == life.canaries["third"]


def test_a_killed_run_that_was_delivering(life: Life) -> None:
    life.ferry("secret", "set", "second", "--uid", "1000", stdin=life.canaries["second"])
    life.watch.said.append(life.stack.kill_when("up", "secrets: ", signal.SIGKILL))
    life.stack.engine_ended()
    life.ferry("secret", "remove", "second")
    life.ferry("up")
    assert life.on_server("ls /run/gpuferry/secrets") == "token\n"


def test_everything_else_that_a_person_runs(life: Life, tmp_path: Path) -> None:
    life.ferry("converge", "--full")
    life.ferry("check", "--junit", str(tmp_path / "junit.xml"))
    life.watch.said.append((tmp_path / "junit.xml").read_text())
    life.ferry("nodes", "--json")
    life.ferry("ssh", "gpu-1", "--", "wc -c", stdin=life.canaries["stdin"])


def test_none_is_on_the_server_but_in_memory(life: Life) -> None:
    words = "\n".join(life.canaries.values())
    found = life.on_server(
        f"cat > /run/words <<'END'\n{words}\nEND\n"
        # Its own list and the secrets' own place are the only ones.
        "grep -rlaFf /run/words /etc /var /root /home /usr/local /opt /data /tmp\n"
        "grep -rlaFf /run/words --exclude=words --exclude-dir=secrets /run\n"
        "journalctl --no-pager | grep -aFf /run/words\n"
        "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -aFf /run/words\n"
        "rm /run/words; exit 0\n"
    )
    assert found == ""


def test_none_was_ever_printed_or_in_a_process_list(life: Life) -> None:
    assert life.watch.rounds > 100
    assert len(life.canaries) == 8
    printed = "\n".join(life.watch.said)
    assert [name for name, canary in life.canaries.items() if canary in printed] == []
    assert life.watch.seen == set()


def in_files(life: Life, folders: list[Path]) -> list[str]:
    """Files of this machine that hold a canary."""
    found = []
    for folder in folders:
        for path in folder.rglob("*"):
            try:
                if not path.is_file() or path.is_symlink() or path.stat().st_size > MOST_BYTES:
                    continue
                text = path.read_bytes()
            except OSError:
                continue
            found += [f"{n}: {path}" for n, c in life.canaries.items() if c.encode() in text]
    return found


def test_none_is_in_a_file_of_this_machine_or_in_what_docker_shows(life: Life) -> None:
    root = Path(life.stack.environment["XDG_DATA_HOME"]).parent
    mine = [folder for folder in root.rglob("*") if folder.is_dir() and "disks" not in folder.parts]
    assert any(".pulumi" in folder.parts for folder in mine)
    found = in_files(life, [root / "project", root / "config", root / "data"])
    # The local S3 server checks signatures with its users' keys, and has only this file for them.
    users = root / f"data/gpuferry/local/{life.stack.name}/objects/iam/users.json"
    assert found == [f"s3-key: {users}"]
    assert users.stat().st_mode & 0o077 == 0 or users.parent.stat().st_mode & 0o077 == 0
    for container in life.stack.containers():
        shown = docker("inspect", container) + docker("logs", container)
        assert [name for name, canary in life.canaries.items() if canary in shown] == []


def test_down_leaves_none_behind(life: Life) -> None:
    life.ferry("down", "--yes")
    recent = time.time() - 3600
    folders = [
        entry
        for place in SHARED
        for entry in place.glob("*gpuferry*")
        if entry.is_dir() and entry.stat().st_mtime > recent
    ]
    root = Path(life.stack.environment["XDG_DATA_HOME"]).parent
    assert in_files(life, [root, *folders]) == []
    assert life.watch.seen == set()
    assert life.canaries["third"] not in "\n".join(life.watch.said)
