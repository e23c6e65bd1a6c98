"""Files that are replaced as a whole: neither a refusal nor a killed run leaves half of one."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpuferry.engine.project import Project


def write_whole(path: Path, text: str) -> None:
    """Write beside, then rename."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextlib.contextmanager
def stack_file_draft(project: Project) -> Iterator[Path]:
    """A copy of the stack file to be changed; it takes the file's place unless something raises."""
    with tempfile.TemporaryDirectory(prefix=".gpuferry-", dir=project.directory) as folder:
        draft = Path(folder) / project.stack_file.name
        shutil.copy2(project.stack_file, draft)
        yield draft
        draft.replace(project.stack_file)
