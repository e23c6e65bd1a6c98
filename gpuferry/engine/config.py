"""The configuration file that the engine gets: the user's, or a copy that may carry a salt.

Pulumi writes the salt of a stack's secrets into the stack file. A file without encrypted values
needs none, and the default stack's file is tracked by Git: so the engine gets a copy of such a
file, and the user's stays as it is. A salt without encrypted values, as a plain `pulumi up` leaves
behind, is passed over: it would shut out everybody who has another passphrase. A file with
encrypted values is used itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from gpuferry.engine.project import Project
from gpuferry.paths import data_dir

_SALT = "encryptionsalt"
_ENCRYPTION = (_SALT, "secretsprovider", "encryptedkey")


def prepare(project: Project) -> Path:
    """Return the file to pass as `--config-file`."""
    own = _read(project.stack_file)
    if _SALT in own and not _has_secrets(own.get("config")):
        del own[_SALT]
    if any(key in own for key in _ENCRYPTION):
        return project.stack_file
    copy = _copy(project)
    kept = {key: value for key, value in _read(copy).items() if key in _ENCRYPTION}
    copy.parent.mkdir(parents=True, exist_ok=True)
    draft = copy.with_suffix(f".{os.getpid()}")
    draft.write_text(yaml.safe_dump({**own, **kept}, sort_keys=False), encoding="utf-8")
    draft.replace(copy)
    return copy


def salt(project: Project) -> dict[str, Any]:
    """What decrypts the secrets of a stack whose own file does not say so; else empty."""
    if any(key in _read(project.stack_file) for key in _ENCRYPTION):
        return {}
    return {key: value for key, value in _read(_copy(project)).items() if key in _ENCRYPTION}


def forget(project: Project) -> None:
    """Remove the copy of a stack that is gone."""
    _copy(project).unlink(missing_ok=True)


def _copy(project: Project) -> Path:
    return data_dir() / "stack-files" / project.name / project.stack_file.name


def _has_secrets(value: Any) -> bool:
    """Whether something in here is encrypted: Pulumi marks it as `secure: v1:…`."""
    if isinstance(value, dict):
        return "secure" in value or any(map(_has_secrets, value.values()))
    return isinstance(value, list) and any(map(_has_secrets, value))


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}  # `down` works without; everything else has read the file before
    return document if isinstance(document, dict) else {}
