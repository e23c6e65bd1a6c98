"""Which Pulumi runs, and the environment it runs in."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuferry.engine.project import Project
from gpuferry.errors import PrerequisiteMissing
from gpuferry.paths import REPOSITORY, cache_dir, config_dir, data_dir
from gpuferry.prepare import binaries

Origin = Literal["path", "installer", "build"]
# Older engines lack the streaming `--json` output that the display reads.
MINIMUM = (3, 200)
_STANDINS = REPOSITORY / "tools" / "bin"
_INSTALLER = "https://get.pulumi.com"
_PLUGINS = ("pulumi-language-python", "pulumi-resource-command")


@dataclass(frozen=True)
class Engine:
    """An engine that can be run."""

    path: Path
    version: str
    origin: Origin


def find() -> Engine | None:
    """The engine that is already here: the user's own, an installed one, a built one."""
    candidates: list[tuple[Path, Origin]] = [
        (_installed(), "installer"),
        (binaries.path("pulumi"), "build"),
    ]
    own = shutil.which("pulumi")
    if own and shutil.which("pulumi-language-python", path=f"{Path(own).parent}:{_path()}"):
        candidates.insert(0, (Path(own), "path"))
    for path, origin in candidates:
        if path.exists() and (version := _version(path)):
            return Engine(path, version, origin)
    return None


def ensure(say: Callable[[str], None]) -> Engine:
    """The engine; installed with Pulumi's installer, or built, where there is none."""
    found = find()
    if found is None:
        if not _install(say):
            binaries.ensure("pulumi", say)
        found = find()
    if found is None:
        raise PrerequisiteMissing("Pulumi was set up but does not run. Run `./ferry doctor`.")
    return found


def environment(engine: Engine, project: Project) -> dict[str, str]:
    """Variables under which Pulumi runs; `ferry env` prints them.

    What the user has set is kept. An engine that was built has the stand-in plugins last on
    PATH; any other fetches the official ones itself.
    """
    venv = Path(sys.executable).parent
    parts = [str(venv), os.environ.get("PATH", ""), str(engine.path.parent)]
    if engine.origin == "build":
        parts.append(str(_STANDINS))
    variables = {
        "PULUMI_STACK": project.stack,
        "PATH": os.pathsep.join(parts),
        "PYTHONPATH": str(REPOSITORY),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    # In the environment also where Pulumi.yaml names it: `stack init` runs in another folder.
    backend = os.environ.get("PULUMI_BACKEND_URL") or project.backend or f"file://{state_dir()}"
    variables["PULUMI_BACKEND_URL"] = without_sidecars(backend)
    if not {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"} & set(os.environ):
        variables["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(config_dir() / "passphrase")
    if engine.origin == "build":
        # Downloads that this engine's network refused once are not tried again at every run.
        variables["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
        if "PULUMI_HOME" not in os.environ:
            variables["PULUMI_HOME"] = str(data_dir() / "pulumi-home")
    return variables


def without_sidecars(backend: str) -> str:
    """The URL of a backend that writes no `.attrs` file beside each file of a local state.

    A run killed while it wrote one leaves it empty, and then every Pulumi command ends in `EOF`.
    """
    if not backend.startswith("file://") or "metadata=" in backend:
        return backend
    return f"{backend}{'&' if '?' in backend else '?'}metadata=skip"


def state_dir() -> Path:
    """Where the state is kept unless the user names another backend."""
    return data_dir() / "state"


def prepare_state() -> None:
    """Make the state folder and, once, the passphrase that encrypts its secrets."""
    state_dir().mkdir(parents=True, exist_ok=True, mode=0o700)
    config_dir().mkdir(parents=True, exist_ok=True, mode=0o700)
    passphrase = config_dir() / "passphrase"
    if not passphrase.exists():
        draft = passphrase.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
        # A link fails where another run was first, so that one passphrase wins for both.
        try:
            os.link(draft, passphrase)
        except FileExistsError:
            pass
        finally:
            draft.unlink()


def plugins(engine: Engine) -> dict[str, str]:
    """Where each plugin comes from: a path, or `downloaded by Pulumi`."""
    parts = f"{os.environ.get('PATH', '')}{os.pathsep}{engine.path.parent}"
    fallback = str(_STANDINS)
    return {
        name: shutil.which(name, path=parts)
        or (f"{fallback}/{name}" if engine.origin == "build" else "downloaded by Pulumi")
        for name in _PLUGINS
    }


def _path() -> str:
    return os.environ.get("PATH", "")


def _installed() -> Path:
    return cache_dir() / "pulumi" / "bin" / "pulumi"


def _version(path: Path) -> str | None:
    """The engine's version, or None when it does not run or is too old."""
    try:
        done = subprocess.run(
            [str(path), "version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    match = re.search(r"v?(\d+)\.(\d+)\.\d+", done.stdout)
    if match is None:
        return "no version stamped in"  # as in every engine built from the Go module
    return done.stdout.strip() if (int(match[1]), int(match[2])) >= MINIMUM else None


def _install(say: Callable[[str], None]) -> bool:
    """Try Pulumi's own installer; False where it cannot be reached."""
    if shutil.which("curl") is None:
        return False
    probe = ["curl", "-fsSL", "--connect-timeout", "5", "--max-time", "30", _INSTALLER]
    script = subprocess.run(probe, capture_output=True, check=False)
    if script.returncode != 0:
        say("Pulumi's installer cannot be reached from here; building the engine instead")
        return False
    say("installing Pulumi with its own installer")
    done = subprocess.run(
        ["sh", "-s", "--", "--install-root", str(_installed().parent.parent), "--no-edit-path"],
        input=script.stdout,
        capture_output=True,
        check=False,
    )
    return done.returncode == 0 and _version(_installed()) is not None
