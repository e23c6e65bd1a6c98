"""Which configuration file the engine gets, and that no salt travels with the repository."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuferry.engine import config
from gpuferry.engine.project import Project
from gpuferry.paths import REPOSITORY

SALT = "v1:p94h0VmKIww=:v1:OlvglHuzWRhZzKIw:vBxadN40tCUv9FvX5mDoVuSaTFe0xA=="
PLAIN = {"gpuferry:servers": [{"name": "gpu-1"}]}
SECRET = {"gpuferry:servers": [{"name": "a", "ssh": {"private_key": {"secure": "v1:x:y"}}}]}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "Pulumi.yaml").write_text("name: gpuferry\nruntime: python\n")
    return Project(tmp_path, "mine")


def prepared(project: Project, document: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Whether the user's own file is given, and what the given file holds."""
    project.stack_file.write_text(yaml.safe_dump(document))
    given = config.prepare(project)
    return given == project.stack_file, yaml.safe_load(given.read_text())


@pytest.mark.parametrize(
    ("document", "own", "salted"),
    [
        ({"config": PLAIN}, False, False),
        ({"config": PLAIN, "encryptionsalt": SALT}, False, False),
        ({"encryptionsalt": SALT}, False, False),
        ({"config": SECRET, "encryptionsalt": SALT}, True, True),
        ({"config": PLAIN, "secretsprovider": "awskms://alias/x"}, True, False),
    ],
)
def test_a_salt_counts_only_beside_encrypted_values(
    project: Project, document: dict[str, Any], own: bool, salted: bool
) -> None:
    is_own, given = prepared(project, document)
    assert is_own is own
    assert ("encryptionsalt" in given) is salted
    assert given.get("config") == document.get("config")


def test_the_copy_keeps_the_salt_that_the_engine_wrote_there(project: Project) -> None:
    project.stack_file.write_text(yaml.safe_dump({"config": PLAIN}))
    copy = config.prepare(project)
    copy.write_text(yaml.safe_dump({"config": PLAIN, "encryptionsalt": SALT}))
    assert prepared(project, {"config": PLAIN}) == (
        False,
        {"config": PLAIN, "encryptionsalt": SALT},
    )


def test_no_tracked_stack_file_carries_somebodys_salt() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "Pulumi.*.yaml"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "Pulumi.local.yaml" in listed
    for name in listed:
        assert "encryptionsalt" not in yaml.safe_load((REPOSITORY / name).read_text()), name
