"""Files that are replaced as a whole: neither a refusal nor a killed run leaves half of one."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpuferry.engine.project import Project
from gpuferry.errors import SpecError


def write_whole(path: Path, text: str) -> None:
    """Write beside, then rename.

    Raises:
        SpecError: it cannot be written there.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise SpecError(f"{path}: cannot be written ({error.strerror or error}).") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def require_new(path: Path) -> None:
    """Before long work: that its result can be written, and takes nobody's place.

    Raises:
        SpecError: the file is there, or its folder is not to be written.
    """
    if path.exists() or path.is_symlink():
        raise SpecError(f"{path}: is there already; name another file.")
    require_folder(path)


def require_folder(path: Path) -> None:
    """Before long work: that a file can be written there.

    Raises:
        SpecError: it is a folder, or its folder is not there or not to be written.
    """
    if path.is_dir():
        raise SpecError(f"{path}: is a folder; name a file.")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise SpecError(f"{path}: the folder {path.parent} is not there, or cannot be written.")


@contextlib.contextmanager
def stack_file_draft(project: Project) -> Iterator[Path]:
    """A copy of the stack file to be changed; it takes the file's place unless something raises."""
    with tempfile.TemporaryDirectory(prefix=".gpuferry-", dir=project.directory) as folder:
        draft = Path(folder) / project.stack_file.name
        shutil.copy2(project.stack_file, draft)
        yield draft
        draft.replace(project.stack_file)
