"""A rollback removes the kernel that runs: debconf, for real, in a database of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuferry.paths import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "playbooks/module_utils"))
import kernel_removal

# The form of linux-base's own file.
TEXT = f"""Template: linux-base/removing-title
Type: title
Description: Removing ${{package}}

Template: {kernel_removal.QUESTION}
Type: boolean
Default: true
Description: Abort kernel removal?
 You are running a kernel (version ${{running}}).
 .
 Default: true is what it says.

Template: linux-base/other
Type: boolean
Default: true
Description: Another question
"""


@pytest.mark.parametrize(
    ("absent", "asks"),
    [
        ([], False),
        (["linux-image-6.8.0-90-generic"], True),
        (["linux-image-unsigned-6.8.0-90-generic"], True),
        (["linux-image-6.8.0-91-generic", "linux-headers-6.8.0-90-generic"], False),
    ],
)
def test_only_the_running_kernels_image_is_asked_about(absent: list[str], asks: bool) -> None:
    assert kernel_removal.removes_running(absent, "6.8.0-90-generic") is asks


def test_one_default_changes_and_nothing_else() -> None:
    changed = kernel_removal.with_default(TEXT, "false").splitlines()
    rows = zip(TEXT.splitlines(), changed, strict=True)
    assert [pair for pair in rows if pair[0] != pair[1]] == [("Default: true", "Default: false")]
    assert changed[6] == "Default: false"


@pytest.mark.skipif(not shutil.which("debconf-communicate"), reason="needs debconf")
def test_the_answer_survives_a_reset_while_it_is_allowed_and_goes_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    databases = "".join(
        f"Name: {name}\nDriver: File\nFilename: {tmp_path}/{name}.dat\n\n" for name in ("c", "t")
    )
    (tmp_path / "debconf.conf").write_text(f"Config: c\nTemplates: t\n\n{databases}")
    monkeypatch.setenv("DEBCONF_SYSTEMRC", str(tmp_path / "debconf.conf"))
    templates = tmp_path / "linux-base.templates"
    templates.write_text(TEXT)

    def answers() -> list[str]:
        """As it was given, and as linux-check-removal reads it: after a reset."""
        words = f"GET {kernel_removal.QUESTION}\nRESET {kernel_removal.QUESTION}\n"
        done = subprocess.run(
            ["debconf-communicate"], input=words + words.splitlines()[0] + "\n",
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        given, _, after = (line.split()[-1] for line in done.stdout.splitlines())
        return [given, after]

    with kernel_removal.allowed(str(templates)):
        assert answers() == ["false", "false"]
    assert answers() == ["true", "true"]
