"""Getting facts: from a deployed server, from a folder of fixtures, from a file."""

from __future__ import annotations

import importlib
import json
import shlex
import sys
import types
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpuferry.driver.facts import Facts
from gpuferry.errors import SpecError, StepFailed
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession
from gpuferry.paths import REPOSITORY

_MODULES = ("gpu_host", "gpu_apt", "gpu_work", "gpu_facts")
_MORE = ("disturb", "freeze", "gpu_use", "gpu_upgrade")
_PACKAGE = "ansible.module_utils"
# apt's lists, dkms, docker and nvidia-smi, each at its own deadline, and a slow disk.
_SECONDS = 180
_BOOTSTRAP = """\
import sys, types
for name in ("ansible", "ansible.module_utils"):
    sys.modules[name] = types.ModuleType(name)
for name, source in SOURCES:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
    setattr(sys.modules["ansible.module_utils"], name.rpartition(".")[2], module)
sys.modules["ansible.module_utils." + ENTRY].main(REQUEST)
"""


def module_sources(*more: str) -> list[tuple[str, str]]:
    """Names and texts of the gatherer's modules, in the order in which they are loaded."""
    folder = REPOSITORY / "playbooks" / "module_utils"
    names = (*_MODULES, *more)
    return [(f"{_PACKAGE}.{n}", (folder / f"{n}.py").read_text("utf-8")) for n in names]


@cache
def _loaded() -> dict[str, types.ModuleType]:
    package = importlib.import_module(_PACKAGE)
    found = {}
    for name, source in module_sources(*_MORE):
        module = found[name.rpartition(".")[2]] = sys.modules[name] = types.ModuleType(name)
        setattr(package, name.rpartition(".")[2], module)
        exec(compile(source, name, "exec"), module.__dict__)  # noqa: S102
    return found


def gatherer(name: str = "gpu_facts") -> types.ModuleType:
    """The gatherer, or another of the files that run on servers, loaded as Ansible would."""
    return _loaded()[name]


def script(request: dict[str, Any], entry: str = "gpu_facts") -> str:
    """What is sent to a server's Python on stdin; `entry` is the file whose `main` is called."""
    sources = module_sources(*(() if entry in _MODULES else _MORE))
    head = f"SOURCES = {sources!r}\nREQUEST = {json.dumps(request)!r}\nENTRY = {entry!r}\n"
    return head + _BOOTSTRAP


def from_server(
    session: SshSession, server: Server, simulate: Sequence[Sequence[str]] = (), *,
    record: bool = False,
) -> tuple[Facts, dict[str, Any]]:  # fmt: skip
    """Facts of a server, and the recording when asked; changes nothing there.

    Raises:
        StepFailed: the gatherer did not run; the message says why.
        ServerUnreachable: the server did not answer.
    """
    request = {"simulate": [list(arguments) for arguments in simulate], "record": record}
    answer = ask(session, server, request)
    return Facts.model_validate(answer["facts"]), answer.get("recording", {})


def users(session: SshSession, server: Server) -> list[str]:
    """Who works with the server's GPUs now, in words.

    Raises:
        StepFailed: nobody could look; the message says why.
        ServerUnreachable: the server did not answer.
    """
    return list(ask(session, server, {}, "gpu_use")["users"])


def ask(
    session: SshSession, server: Server, request: dict[str, Any], entry: str = "gpu_facts"
) -> dict[str, Any]:
    """Run one of the files on a server; return what its `main` printed.

    Raises:
        StepFailed: it did not run; the message says why.
        ServerUnreachable: the server did not answer.
    """
    done = session.run(
        server,
        ["sudo", "-n", "python3", "-I", "-"],
        stdin=script(request, entry).encode(),
        timeout_seconds=_SECONDS,
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace")
        if "a password is required" in said or "may not run sudo" in said:
            raise StepFailed(f"{server.name}: {server.sudo_advice}")
        last = (said.strip().splitlines() or ["no reason given"])[-1]
        raise StepFailed(f"{server.name}: the facts could not be gathered: {last}")
    # The last line: a login shell may print a greeting first.
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def from_path(path: Path, simulate: Sequence[Sequence[str]] = ()) -> Facts:
    """Facts from a JSON file, or from a folder of fixtures that stands for a server.

    Raises:
        SpecError: there is nothing usable.
    """
    try:
        if path.is_dir():
            raw = _from_folder(path, simulate)
        else:
            raw = json.loads(path.read_text(encoding="utf-8"))
            raw = raw.get("facts", raw)
        return Facts.model_validate(raw)
    except (OSError, ValueError) as error:
        what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise SpecError(
            f"--facts {path}: no facts of a server ({what}). Accepted: a file that ferry plan "
            "driver NAME --json wrote, or a folder with root/ and commands.json."
        ) from None


def _from_folder(path: Path, simulate: Sequence[Sequence[str]]) -> dict[str, Any]:
    if not (path / "root").is_dir():
        raise ValueError("the folder has no root/")
    pci = path / "pci"
    facts = gatherer().gather(
        str(path / "root"),
        replay(path / "commands.json"),
        str(pci) if pci.is_dir() else None,
        simulate,
    )
    return dict(facts)


def replay(path: Path) -> Callable[[Sequence[str], float], dict[str, Any]]:
    """A command runner that answers from a recording; what was not recorded is absent."""
    recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def run(argv: Sequence[str], seconds: float) -> dict[str, Any]:  # noqa: ARG001
        missing = {"state": "absent", "code": None, "out": ""}
        return dict(recorded.get(shlex.join(argv), missing))

    return run


def write_recording(recording: dict[str, Any], folder: Path) -> None:
    """Write what a gatherer read as a folder of fixtures that `from_path` reads again."""
    root = folder / "root"
    root.mkdir(parents=True, exist_ok=True)
    for name, text in recording["files"].items():
        data = text.encode("latin-1" if name.endswith("/config") else "utf-8")
        _below(root, name).write_bytes(data)
    for name, target in recording["links"].items():
        link = _below(root, name)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    listed = {name for paths in recording["folders"].values() for name in paths}
    # The deepest first: what has something below it is a folder.
    for name in sorted(listed, key=lambda path: -path.count("/")):
        place = _below(root, name)
        if not place.exists() and not place.is_symlink():
            place.touch()
    text = json.dumps(recording["commands"], indent=1, sort_keys=True)
    (folder / "commands.json").write_text(text + "\n", encoding="utf-8")


def _below(root: Path, name: str) -> Path:
    # Names come from a server, which may be hostile.
    if ".." in Path(name).parts:
        raise SpecError(f"the recording names {name}, which leads out of its folder.")
    path = root / name.lstrip("/")
    if any(parent.is_symlink() for parent in path.parents if parent != root):
        raise SpecError(f"the recording names {name}, which leads through a link.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
