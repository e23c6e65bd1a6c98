"""What people are told to run works on the stack that they work on."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuferry.cli.app import run
from gpuferry.engine.find import Engine, environment
from gpuferry.engine.project import Project


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: gpuferry\nruntime: python\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("run: ./ferry converge gpu-1", "run: ./ferry converge --stack mine gpu-1"),
        ("see `./ferry ssh gpu-1 -- dmesg`", "see `./ferry ssh --stack mine gpu-1 -- dmesg`"),
        ("./ferry driver upgrade gpu-1 --plan", "./ferry driver upgrade --stack mine gpu-1 --plan"),
        ("./ferry plan driver gpu-1, then up", "./ferry plan driver --stack mine gpu-1, then up"),
        ("./ferry image build node", "./ferry image build node --stack mine"),
        ("./ferry nodes, ./ferry up.", "./ferry nodes --stack mine, ./ferry up --stack mine."),
        ("./ferry up --stack mine", "./ferry up --stack mine"),
        ("./ferry driver upgrade --stack mine a", "./ferry driver upgrade --stack mine a"),
        ("./ferry doctor and ./ferry test unit", "./ferry doctor and ./ferry test unit"),
        ("no command", "no command"),
    ],
)
def test_commands_name_the_stack(folder: Path, text: str, told: str) -> None:
    assert Project(folder, "mine").on_stack(text) == told
    assert Project(folder).on_stack(text) == text


def test_an_error_names_the_stack_that_was_meant(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "Pulumi.mine.yaml").write_text("config: {gpuferry:servers: [{name: gpu-1}]}\n")
    monkeypatch.setattr(
        "sys.argv", ["ferry", "resize", "-C", str(folder), "-s", "mine", "--servers", "0"]
    )
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2
    assert "./ferry down --stack mine" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("declared", "own", "used"),
    [
        ("", "", "file://{data}/gpuferry/state?metadata=skip"),
        ("s3://team?region=x", "", "s3://team?region=x"),
        ("s3://team?region=x", "gs://mine", "gs://mine"),
        ("file://./state", "", "file://{folder}/./state?metadata=skip"),
        ("file:///srv/state", "", "file:///srv/state?metadata=skip"),
    ],
)
def test_where_the_state_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, declared: str, own: str, used: str
) -> None:
    """Always named to the engine, which is started in other folders, too."""
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    if own:
        monkeypatch.setenv("PULUMI_BACKEND_URL", own)
    if declared:
        program = f"name: gpuferry\nruntime: python\nbackend: {{url: '{declared}'}}\n"
        (folder / "Pulumi.yaml").write_text(program)
    engine = Engine(Path("/usr/bin/pulumi"), "3.200.0", "path")
    expected = used.format(data=folder / "data", folder=folder)
    assert environment(engine, Project(folder))["PULUMI_BACKEND_URL"] == expected
