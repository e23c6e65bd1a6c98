"""data push, pull, list: restic on a server or on this machine, against the stack's buckets."""

from __future__ import annotations

import fcntl
import hashlib
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from gpuferry.engine.project import Project
from gpuferry.engine.run import Pulumi, Records
from gpuferry.errors import SpecError, StepFailed
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession
from gpuferry.operate.console import print_json, print_table, say_on_stderr
from gpuferry.operate.servers import open_deployed, select
from gpuferry.paths import data_dir
from gpuferry.prepare import packages
from gpuferry.sealed import orders
from gpuferry.sealed.orders import Vault

Runner = Callable[[dict[str, Any]], dict[str, Any]]
_PROGRAM = Path(orders.__file__).with_name("run_restic.py")
# Terabytes take their time, but not for ever.
_MOST_SECONDS = 7 * 24 * 3600
_PRESENT = "command -v restic >/dev/null"
_INSTALL = (
    "export DEBIAN_FRONTEND=noninteractive; apt-get -q -o DPkg::Lock::Timeout=300 update; "
    "apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends restic"
)

_STORE = tuple(field.name for field in fields(Vault) if field.name != "key")


def push(
    project: Project,
    folder: str,
    *,
    server: str | None,
    store: str | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Seal a folder's contents into a bucket, as a snapshot of a data set."""
    chosen = orders.set_name(name or Path(folder).name)
    pulumi = open_deployed(project)
    vault = _vault(pulumi, store)
    with _runner(pulumi, server) as run:
        say_on_stderr(f"{chosen}: sealing {folder} of {server or 'this machine'} into {vault.name}")
        done = push_with(run, vault, chosen, _absolute(folder, server), server or _here())
    if as_json:
        print_json({"ok": True, "name": chosen, "store": vault.name, **done})
        return
    print(
        f"{chosen}: {_count(done['files'])}, {_size(done['bytes'])}, of which "
        f"{_size(done['new_bytes'])} were new, sealed in {vault.name} as snapshot "
        f"{done['snapshot']}."
    )


def push_with(run: Runner, vault: Vault, name: str, folder: str, host: str) -> dict[str, Any]:
    """Push with whatever runs restic; makes the repository where there is none yet.

    A snapshot is written last: an interrupted push leaves blobs that the next one uses, and nothing
    that looks whole.
    """
    with _taking_turns(vault):
        found = run(orders.order(vault, ["cat", "config"]))
        if orders.is_missing(found):
            orders.expect(run(orders.init(vault)), f"{vault.name}: setting it up")
        else:
            orders.expect(found, vault.name)
    answer = run(orders.push(vault, name, folder, host))
    if answer.get("code") == orders.UNREADABLE:
        # restic keeps an incomplete snapshot, which would be the newest of its name.
        half = orders.summary(answer)["snapshot"]
        what = f"{name}: {folder} could be read in part only; its snapshot {half} is to be removed"
        orders.expect(run(orders.forget(vault, half)), what)
    return orders.summary(orders.expect(answer, f"{name}: pushing {folder}", folder))


@contextmanager
def _taking_turns(vault: Vault) -> Iterator[None]:
    """Two who set up a repository at once each write a key of their own, and neither opens it.

    Runs of this machine wait for each other here; the store itself has nothing to wait by.
    """
    digest = hashlib.sha256(f"{vault.endpoint}/{vault.bucket}".encode()).hexdigest()[:16]
    folder = data_dir() / "sealed"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(folder / f"{digest}.lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def pull(
    project: Project,
    name: str,
    folder: str,
    *,
    server: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Restore a data set's newest snapshot into an empty or new folder."""
    orders.set_name(name)
    pulumi = open_deployed(project)
    vault = _vault(pulumi, store)
    target = _absolute(folder, server)
    with _runner(pulumi, server) as run:
        say_on_stderr(
            f"{name}: restoring to {target} of {server or 'this machine'}, then comparing"
        )
        pull_with(run, vault, name, target)
    if as_json:
        print_json({"ok": True, "name": name, "store": vault.name, "folder": target})
        return
    print(f"{name}: restored and compared in {target}{f' on {server}' if server else ''}.")


def pull_with(run: Runner, vault: Vault, name: str, folder: str) -> None:
    """Pull with whatever runs restic."""
    known = {snapshot.name for snapshot in list_with(run, vault)}
    if name not in known:
        there = f"it holds {', '.join(sorted(known))}" if known else "it holds none"
        raise SpecError(f"{vault.name} holds no data set {name!r}; {there}.")
    answer = run(orders.pull(vault, name, folder))
    orders.expect(answer, f"{name}: restoring to {folder}", folder)


def show(project: Project, *, store: str | None, as_json: bool) -> None:
    """All snapshots, names and times only."""
    pulumi = open_deployed(project)
    vault = _vault(pulumi, store)
    with _runner(pulumi, None) as run:
        found = list_with(run, vault)
    rows = [vars(snapshot) for snapshot in found]
    if as_json:
        print_json({"ok": True, "store": vault.name, "snapshots": rows})
        return
    columns = ["name", "time", "server", "id"]
    print_table("", columns, [[row[column] for column in columns] for row in rows])


def list_with(run: Runner, vault: Vault) -> list[orders.Snapshot]:
    """All snapshots; none where nothing was ever sealed."""
    answer = run(orders.order(vault, ["snapshots", "--json", "--no-lock"]))
    if orders.is_missing(answer):
        return []
    return orders.snapshots(orders.expect(answer, vault.name))


def _vault(pulumi: Pulumi, store: str | None) -> Vault:
    return vault_of(access(pulumi.all_records(), pulumi.outputs()), store)


def access(records: Records, outputs: dict[str, Any]) -> dict[str, Any]:
    """Buckets and their keys: as the servers were given them, else as in the stack's outputs.

    Outputs are as old as the last deployment that went well; data is wanted when one did not.
    """
    stores = {
        store["name"]: {field: store[field] for field in _STORE if field in store}
        for record in records("-inventory")
        for store in record["expectations"]["object_stores"]
    }
    found = {name: records(f"::{name}-data-key") for name in stores}
    keys = {name: kept[0]["key"] for name, kept in found.items() if kept}
    return {
        "object_store_access": {**(outputs.get("object_store_access") or {}), **stores},
        "data_keys": {**(outputs.get("data_keys") or {}), **keys},
    }


def vault_of(outputs: dict[str, Any], store: str | None) -> Vault:
    """The bucket that is meant, with the stack's key for it.

    Raises:
        SpecError: there is none, or it is not clear which.
    """
    known = outputs.get("object_store_access") or {}
    names = ", ".join(known) or "none"
    if store is None and len(known) != 1:
        raise SpecError(f"Name the bucket with --store; the stack has: {names}.")
    name = store or next(iter(known))
    if name not in known:
        raise SpecError(f"The stack has no object store {name!r}; it has: {names}.")
    if name not in (outputs.get("data_keys") or {}):
        raise SpecError(f"{name} has no key for sealed data yet. Run: ./ferry up")
    return Vault(**known[name], key=outputs["data_keys"][name])


@contextmanager
def _runner(pulumi: Pulumi, server: str | None) -> Iterator[Runner]:
    if server is None:
        packages.install_missing(say_on_stderr, ("restic",))
        yield run_here
        return
    (entry,) = select(pulumi, [server])
    with SshSession([entry.server]) as session:
        if session.run(entry.server, ["sh", "-c", _PRESENT], timeout_seconds=60).returncode != 0:
            _install(session, entry.server)
        yield lambda order: run_there(session, entry.server, order)


def _install(session: SshSession, server: Server) -> None:
    say_on_stderr(f"{server.name}: installing restic")
    done = session.run(server, ["sudo", "-n", "sh", "-ec", _INSTALL], timeout_seconds=600)
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise StepFailed(f"{server.name}: restic could not be installed: {' '.join(reason)}")


def run_here(order: dict[str, Any]) -> dict[str, Any]:
    """Run restic on this machine."""
    done = subprocess.run(
        [sys.executable, "-I", str(_PROGRAM)],
        input=json.dumps(order).encode(),
        capture_output=True,
        check=False,
    )
    return _answer(done, "this machine")


def run_there(session: SshSession, server: Server, order: dict[str, Any]) -> dict[str, Any]:
    """Run restic on a server, as root: data sets keep their owners."""
    command = ["sudo", "-n", "python3", "-I", "-c", _PROGRAM.read_text(encoding="utf-8")]
    done = session.run(
        server, command, stdin=json.dumps(order).encode(), timeout_seconds=_MOST_SECONDS
    )
    return _answer(done, server.name)


def _answer(done: subprocess.CompletedProcess[bytes], where: str) -> dict[str, Any]:
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise StepFailed(f"{where}: {' '.join(lines[-1:]) or f'exit code {done.returncode}'}")
    return dict(json.loads(done.stdout))


def _absolute(folder: str, server: str | None) -> str:
    if server is None:
        return str(Path(folder).expanduser().absolute())
    if not folder.startswith("/"):
        raise SpecError(f"{folder}: on a server the folder starts with '/'.")
    return folder.rstrip("/") or "/"


def _here() -> str:
    return socket.gethostname()


def _count(files: int) -> str:
    return "1 file" if files == 1 else f"{files} files"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
