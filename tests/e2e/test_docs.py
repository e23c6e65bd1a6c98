"""The pages' command blocks, run as a newcomer would: in their order, on a stack of their own."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from gpuferry.paths import REPOSITORY
from tests.support.marks import slow

from .conftest import NewStack


def commands(page: str) -> list[str]:
    """All lines of a page's `sh` blocks."""
    text = (REPOSITORY / page).read_text()
    return [
        line
        for block in re.findall(r"(?ms)^```sh\n(.*?)^```", text)
        for line in block.splitlines()
        if line
    ]


# The README's second command is what runs this test.
@pytest.mark.parametrize(
    ("page", "left_out"),
    [("README.md", {"./ferry test"}), *slow(("docs/first-server.md", set()))],
)
def test_a_page_works_as_written(new_stack: NewStack, page: str, left_out: set[str]) -> None:
    stack = new_stack()
    shutil.copy(REPOSITORY / "Pulumi.local.yaml", stack.file)
    environment = {**stack.environment, "GPUFERRY_STACK": stack.name}
    lines = [line for line in commands(page) if line not in left_out]
    assert lines[0] == "./ferry doctor" or lines[0] == "./ferry up"
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"$ {line}\n{done.stdout}\n{done.stderr}"
    assert stack.containers() == []
