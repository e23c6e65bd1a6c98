"""Data sets are sealed on a real server into a real store: whole, unreadable, not half."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpuferry import keys
from gpuferry.errors import SpecError, StepFailed
from gpuferry.nodes.local import bucket, object_store
from gpuferry.operate import sealed
from gpuferry.operate.sealed import run_here, run_there
from gpuferry.paths import local_dir
from gpuferry.prepare import packages
from gpuferry.sealed import orders
from gpuferry.sealed.orders import PREFIX, Vault
from tests.support.node import Node, NodeMaker

CANARY = "canary-e5b1-in-a-data-set"
SECONDS = 60
# Looks for keys where others could read them. One process does show them, to prove that the search
# finds what is there; its environment is named first.
SEARCH = """
SHOWN="$keys" sleep 60 > /dev/null 2>&1 &
shown=/proc/$!/environ
until grep -qa SHOWN $shown; do sleep 0.05; done
echo $shown
for file in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do
  grep -qaE "$keys" $file 2>/dev/null && echo $file
done
grep -rlaE "$keys" /tmp /run /var/tmp /root /home /etc 2>/dev/null || true
kill %1
"""


class Bench:
    """A server, a store, and a bucket with a key."""

    def __init__(self, node: Node) -> None:
        self.node = node
        admin = keys.access_key()
        store = object_store.ObjectStoreArgs(
            stack=node.stack,
            subnet4=node.network["subnet4"],
            subnet6=node.network["subnet6"],
            **keys.certificate_authority(node.stack),
            **admin,
        )
        object_store.create(store, lambda text: None)
        own = keys.access_key()
        bucket.create(
            bucket.BucketArgs(
                name="sets",
                versioning=True,
                retention_days=0,
                endpoint=store.endpoint,
                ca_pem=store.ca_pem,
                admin_access_key=admin["access_key"],
                admin_secret_key=admin["secret_key"],
                **own,
            )
        )
        self.vault = Vault(
            name="sets",
            endpoint=store.endpoint,
            bucket="sets",
            region=object_store.REGION,
            ca_pem=store.ca_pem,
            key=keys.volume_key()["key"],
            **own,
        )
        self.raw = local_dir(node.stack) / "objects" / "objects" / "sets"
        node.run(sealed._INSTALL, 300)

    def there(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run restic on the server."""
        return run_there(self.node.session, self.node.server, order)

    def push(self, folder: str, name: str = "faces") -> dict[str, Any]:
        """Push a folder of the server."""
        return sealed.push_with(self.there, self.vault, name, folder, "node")

    def pull(self, folder: str, name: str = "faces") -> None:
        """Restore to a folder of the server."""
        sealed.pull_with(self.there, self.vault, name, folder)

    def names(self) -> list[str]:
        """Of all snapshots, oldest first."""
        return [snapshot.name for snapshot in sealed.list_with(self.there, self.vault)]

    def listing(self, folder: str) -> str:
        """Everything that must come back: names, kinds, modes, owners, times, targets, contents."""
        return self.node.run(
            f"cd {folder} && find . -printf '%P %y %m %U:%G %T@ %l\\n' | sort && "
            "find . -type f -exec sha256sum {} + | sort"
        )

    def killed_while(self, running: Callable[[], Any], sign: Callable[[], bool]) -> None:
        """Run something with restic in it; kill restic as soon as a sign is there."""
        failure: list[BaseException] = []

        def run() -> None:
            try:
                running()
            except StepFailed as error:
                failure.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        deadline = time.monotonic() + SECONDS
        while not sign():
            assert time.monotonic() < deadline, "the sign never came"
            assert thread.is_alive(), "it was over before the sign"
            time.sleep(0.02)
        self.node.run("pkill -KILL -x restic")
        thread.join(SECONDS)
        assert failure, "it was over before it was killed"


@pytest.fixture(scope="module")
def bench(new_node: NodeMaker) -> Bench:
    packages.install_missing(lambda text: None, ("restic",))
    bench = Bench(new_node())
    bench.node.run(
        f"""
        mkdir -p /srv/faces/empty '/srv/faces/with space'; cd /srv/faces
        echo {CANARY} > plain; printf '{CANARY}%.0s' $(seq 1000) > '{CANARY}.txt'
        echo x > '-leading dash'; echo y > $'new\\nline'; echo z > 'naïve-日本'
        echo {{ca}} > '{{ca}}'; ln -s plain link; ln plain hard; mkfifo pipe
        chmod 4711 plain; chown 1234:4321 . 'with space'; chmod 2750 .
        touch -d '2001-02-03 04:05:06.123456789' plain
        """
    )
    return bench


def test_nothing_is_listed_before_anything_was_pushed(bench: Bench) -> None:
    assert bench.names() == []
    with pytest.raises(SpecError, match="holds no data set 'faces'; it holds none"):
        bench.pull("/srv/none")


def test_first_pushes_at_the_same_time_do_not_break_each_other(bench: Bench) -> None:
    with ThreadPoolExecutor() as pool:
        names = ["one", "two", "three"]
        done = [pool.submit(bench.push, "/srv/faces", name) for name in names]
        assert all(push.result()["files"] >= 6 for push in done)
    assert sorted(bench.names()) == sorted(names)


def test_a_data_set_comes_back_as_it_was(bench: Bench) -> None:
    done = bench.push("/srv/faces")
    assert done["files"] >= 6
    bench.pull("/srv/back")
    assert bench.listing("/srv/back") == bench.listing("/srv/faces")


def test_only_what_is_new_is_sent_again(bench: Bench) -> None:
    bench.node.run("head -c 3000000 /dev/urandom > /srv/faces/more")
    first, second = bench.push("/srv/faces"), bench.push("/srv/faces")
    assert first["new_bytes"] > 3_000_000
    assert second["new_bytes"] < 10_000
    assert bench.names().count("faces") == 3


def test_another_machine_reads_it_with_another_version_of_restic(
    bench: Bench, tmp_path: Path
) -> None:
    assert [s.name for s in sealed.list_with(run_here, bench.vault)] == bench.names()
    sealed.pull_with(run_here, bench.vault, "faces", str(tmp_path / "here"))
    assert (tmp_path / "here" / "plain").read_text() == f"{CANARY}\n"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "x").write_text("from here")
    sealed.push_with(run_here, bench.vault, "own", str(tmp_path / "own"), "here")
    bench.pull("/srv/own", "own")
    assert bench.node.run("cat /srv/own/x") == "from here"


def test_neither_contents_nor_names_are_in_the_stores_raw_bytes(bench: Bench) -> None:
    files = [path for path in bench.raw.rglob("*") if path.is_file()]
    assert any(path.stat().st_size > 1_000_000 for path in files)
    for path in files:
        assert CANARY.encode() not in path.read_bytes()
        assert b"with space" not in path.read_bytes()


def test_another_key_opens_nothing(bench: Bench) -> None:
    other = dataclasses.replace(bench.vault, key=keys.volume_key()["key"])
    with pytest.raises(StepFailed, match="sealed with another key"):
        sealed.list_with(bench.there, other)
    with pytest.raises(StepFailed, match="sealed with another key"):
        sealed.push_with(bench.there, other, "faces", "/srv/faces", "node")


def test_a_store_that_does_not_prove_itself_is_not_used(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "_ANSWER_SECONDS", 8)
    other = dataclasses.replace(bench.vault, ca_pem=keys.certificate_authority("other")["ca_pem"])
    with pytest.raises(StepFailed, match="certificate"):
        sealed.push_with(bench.there, other, "faces", "/srv/faces", "node")


def test_what_is_there_is_not_overwritten(bench: Bench) -> None:
    with pytest.raises(SpecError, match="/srv/faces is not empty"):
        bench.pull("/srv/faces")
    with pytest.raises(SpecError, match="/proc is not empty"):
        bench.pull("/proc")
    with pytest.raises(SpecError, match="cannot be made"):
        bench.pull("/srv/no/such")


def test_an_interrupted_push_leaves_nothing_half_and_the_next_completes(bench: Bench) -> None:
    bench.node.run("mkdir /srv/large; head -c 250000000 /dev/urandom > /srv/large/x")
    packs = bench.raw / PREFIX / "data"
    before = sum(1 for path in packs.rglob("*") if path.is_file())
    leaks: list[str] = []

    def under_way() -> bool:
        if sum(1 for path in packs.rglob("*") if path.is_file()) < before + 2:
            return False
        secrets = "|".join((bench.vault.key, bench.vault.secret_key))
        leaks.append(bench.node.run(f"keys='{secrets}'\n{SEARCH}"))
        return True

    bench.killed_while(lambda: bench.push("/srv/large", "large"), under_way)
    shown, *found = leaks[0].split()
    assert found == [shown]
    assert "large" not in bench.names()
    with pytest.raises(SpecError, match="no data set 'large'"):
        bench.pull("/srv/large-back", "large")
    bench.push("/srv/large", "large")
    bench.pull("/srv/large-back", "large")
    assert bench.listing("/srv/large-back") == bench.listing("/srv/large")


def test_an_interrupted_pull_leaves_no_folder(bench: Bench) -> None:
    bench.killed_while(
        lambda: bench.pull("/srv/half", "large"),
        lambda: bench.node.run("find /srv -path '/srv/.half.*' -name x -size +1M") != "",
    )
    assert bench.node.run("ls -A /srv | grep half || true") == ""
    bench.pull("/srv/half", "large")


@pytest.mark.slow
def test_a_store_that_changed_a_byte_is_found_out(bench: Bench) -> None:
    packs = [path for path in (bench.raw / PREFIX / "data").rglob("*") if path.is_file()]
    kept = {path: path.read_bytes() for path in packs}
    for path, content in kept.items():
        middle = len(content) // 2
        changed = bytes([content[middle] ^ 1])
        path.write_bytes(content[:middle] + changed + content[middle + 1 :])
    with pytest.raises(StepFailed):
        bench.pull("/srv/tampered", "large")
    assert bench.node.run("ls -A /srv | grep tampered || true") == ""
    for path, content in kept.items():
        path.write_bytes(content)
    bench.pull("/srv/tampered", "large")
