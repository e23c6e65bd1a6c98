"""The stack file gets the servers; comments, hand edits and everything else stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuferry.audit.apply.stackfile import edit
from gpuferry.audit.apply.wishes import Wish, wishes
from gpuferry.engine.project import Project
from gpuferry.errors import PrerequisiteMissing, SpecError
from gpuferry.operate import auditing
from gpuferry.spec import parse_spec
from tests.support.audit import planned, row

OLD = """\
# the team's stack
config:
    gpuferry:provider: local   # for now
    gpuferry:servers:
        - name: gpu-1   # under the desk
          image: debian-12
          cpus: 2
          data_disk_gib: 900
          gpu: {model: T4, count: 1}   # simulated
          labels:
              audit: cpus=2 data_disk_gib=900 gpu={"model":"T4","count":1}
              workloads: a, b
          open_ports:
              - {port: 8888, from: [10.0.0.0/8]}
        - name: by-hand
          cpus: 4
    gpuferry:firewall:
        ssh_from: [192.0.2.0/24]   # the office
# the end
"""


def wish(name: str = "gpu-1", **values: Any) -> Wish:
    sizes = {"cpus": 16, "memory_gib": 64, "data_disk_gib": 300, "workload": "training"}
    return Wish(name, {**sizes, "gpu": {"model": "L4", "count": 2}, **values}, ("a", "b"))


def apply(text: str, *many: Wish, **options: Any) -> tuple[str, list[str]]:
    settings = {"provider": "local", "bucket": False, "ssh_from": [], **options}
    return edit(text, list(many), **settings)


def servers(text: str) -> dict[str, dict[str, Any]]:
    config = yaml.safe_load(text)["config"]
    parse_spec(config)
    return {server["name"]: server for server in config["gpuferry:servers"]}


def test_a_new_file_is_valid() -> None:
    text, _ = apply("", wish(), wish("gpu-2"), bucket=True, ssh_from=["192.0.2.0/24"])
    found = servers(text)
    assert found["gpu-2"]["gpu"] == {"model": "L4", "count": 2}
    assert "gpuferry:object_stores" in text
    assert "192.0.2.0/24" in text


def test_comments_and_foreign_keys_stay() -> None:
    text, kept = apply(OLD, wish())
    for part in (
        "# the team's stack",
        "# for now",
        "# under the desk",
        "# the office",
        "# the end",
    ):
        assert part in text, text
    found = servers(text)
    assert found["gpu-1"]["image"] == "debian-12"
    assert found["gpu-1"]["open_ports"] == [{"port": 8888, "from": ["10.0.0.0/8"]}]
    assert found["gpu-1"]["cpus"] == 16
    assert found["by-hand"] == {"name": "by-hand", "cpus": 4}
    assert "data_disk_gib: 900 stays (a disk only grows" in kept[0]
    removed = [line for line in OLD.splitlines() if line not in text.splitlines()]
    assert [line.split(":")[0].strip() for line in removed] == ["cpus", "gpu", "audit"]


def test_the_second_time_changes_nothing() -> None:
    once, _ = apply(OLD, wish())
    twice, _ = apply(once, wish())
    assert twice == once


def test_a_hand_edit_wins_and_is_named() -> None:
    once, _ = apply(OLD, wish())
    edited = once.replace("cpus: 16", "cpus: 12").replace("count: 2", "count: 4")
    again, kept = apply(edited, wish(cpus=24))
    assert servers(again)["gpu-1"]["cpus"] == 12
    assert servers(again)["gpu-1"]["gpu"]["count"] == 4
    assert any("gpu-1.cpus: 12 stays (written by hand; audit: 24)" in line for line in kept)


def test_a_new_decision_changes_what_nobody_touched() -> None:
    once, _ = apply(OLD, wish())
    again, _ = apply(once, wish(cpus=24))
    assert servers(again)["gpu-1"]["cpus"] == 24


def test_a_server_that_a_person_wrote_is_not_taken_over() -> None:
    mine = OLD.replace("              audit: cpus=2", "              note: cpus=2")
    text, kept = apply(mine, wish())
    found = servers(text)["gpu-1"]
    assert (found["cpus"], found["gpu"]) == (2, {"model": "T4", "count": 1})
    assert found["memory_gib"] == 64  # it said nothing about it
    assert any('gpu-1.gpu: {"model": "T4", "count": 1} stays' in line for line in kept)
    assert apply(text, wish())[0] == text


def test_a_new_server_in_front_does_not_move_the_others() -> None:
    small, large = {"model": "L4", "count": 1}, {"model": "H100", "count": 8}
    once, _ = apply("", Wish("gpu-1", wish(gpu=small).values, ("cnn",)))
    new = Wish("gpu-1", wish(gpu=large).values, ("llm",))
    again, kept = apply(once, new, Wish("gpu-2", wish(gpu=small).values, ("cnn",)))
    found = servers(again)
    assert found["gpu-1"]["gpu"] == small
    assert found["gpu-2"]["gpu"] == large
    assert kept == []
    assert apply(again, new, Wish("gpu-2", wish(gpu=small).values, ("cnn",)))[0] == again


def test_an_entry_that_another_refers_to_changes_alone() -> None:
    once, _ = apply("", wish())
    mine = once.replace("gpu: {", "gpu: &same {") + "    - {name: mine, gpu: *same}\n"
    again, _ = apply(mine, wish(gpu={"model": "H100", "count": 2}))
    found = servers(again)
    assert found["gpu-1"]["gpu"]["model"] == "H100"
    assert found["mine"]["gpu"] == {"model": "L4", "count": 2}


def test_servers_of_an_earlier_plan_are_named() -> None:
    two = (wish(), wish("gpu-2", gpu={"model": "T4", "count": 1}))
    once, _ = apply("", *two)
    again, kept = apply(once, two[1])
    assert set(servers(again)) == {"gpu-1", "gpu-2"}
    assert ["gpu-1: from an earlier audit" in line for line in kept] == [True]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("config: [", "not valid YAML"),
        ("- a", "has to be a mapping"),
        ("config: 5", "has to be a mapping"),
        ("config:\n  gpuferry:servers: '[]'\n", "YAML list"),
        ("config:\n  gpuferry:servers: [x]\n", "YAML list"),
        ("a: 1\na: 2\n", "not valid YAML"),
    ],
)
def test_files_that_cannot_be_edited_are_refused(text: str, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        apply(text, wish())


def test_the_local_provider_is_given_names_that_it_can_simulate() -> None:
    w = row(kind="sim", basis="measured", peak_vram="70 GiB", splits="no")
    plan = planned([w], {"gpu": "H100 SXM"})
    assert wishes(plan, "local", rehearsal=False)[0].values["gpu"]["model"] == "H100"
    assert wishes(plan, "ssh", rehearsal=False)[0].values["gpu"]["model"] == "H100 SXM"
    small = wishes(plan, "local", rehearsal=True)[0].values
    assert (small["cpus"], small["memory_gib"]) == (2, 2)
    other = planned([w], {"gpu": "RTX PRO 5000 Blackwell", "gpus": 1}, {"gpu": "H100 NVL"})
    with pytest.raises(SpecError, match="cannot simulate 'H100 NVL'; accepted: A100-80"):
        wishes(other, "local", rehearsal=False)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "Pulumi.yaml").write_text("name: gpuferry\nruntime: python\n")
    return Project(tmp_path, "move")


TABLE = "workloads:\n  - {id: a, kind: sim, basis: measured, peak_vram: 9 GiB}\n"
OFFERS = "offers:\n  - {id: o, provider: P, gpu: L4, gpus: 1, price: 1, currency: EUR}\n"


def run(project: Project, **options: Any) -> None:
    (project.directory / "t.yaml").write_text(TABLE)
    (project.directory / "o.yaml").write_text(OFFERS)
    settings = {"provider": "local", "ssh_from": [], "rehearsal": False, "yes": True}
    auditing.apply(
        project, project.directory / "t.yaml", project.directory / "o.yaml",
        **{**settings, "dry_run": False, **options},
    )  # fmt: skip


def test_the_command_shows_a_diff_and_writes(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    run(project)
    assert "+    - name: gpu-1" in capsys.readouterr().out
    assert project.spec().servers[0].gpu is not None
    assert [p.name for p in project.directory.glob("*.yaml.*")] == []
    run(project)
    assert "nothing to change" in capsys.readouterr().err


def test_a_dry_run_and_a_missing_answer_write_nothing(project: Project) -> None:
    run(project, dry_run=True)
    with pytest.raises(PrerequisiteMissing, match="repeat with --yes"):
        run(project, yes=False)
    assert not project.stack_file.exists()


def test_what_would_not_be_valid_is_not_written(project: Project) -> None:
    bad = "config:\n  gpuferry:provider: ssh\n  gpuferry:servers: []\n"
    project.stack_file.write_text(bad)
    with pytest.raises(SpecError, match=r"it was not changed: .*ssh.*bring-your-own-server"):
        run(project)
    assert project.stack_file.read_text() == bad


def test_line_ends_links_and_the_mode_stay(project: Project, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.yaml"
    target.write_bytes(
        b"config:\r\n  gpuferry:provider: local # mine\r\n  gpuferry:servers: []\r\n"
    )
    target.chmod(0o640)
    project.stack_file.symlink_to(target)
    run(project)
    data = target.read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n") > 5
    assert b"# mine" in data
    assert project.stack_file.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_read_only_file_and_one_in_another_encoding_are_refused(project: Project) -> None:
    project.stack_file.write_text("config: {}\n")
    project.stack_file.chmod(0o444)
    with pytest.raises(SpecError, match="is read-only; `chmod"):
        run(project)
    project.stack_file.chmod(0o644)
    project.stack_file.write_bytes(b"config: {} # \xfc\n")
    with pytest.raises(SpecError, match="not UTF-8"):
        run(project)


def test_what_somebody_changes_while_it_asks_is_not_lost(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.stack_file.write_text("config:\n  gpuferry:provider: local\n")
    mine = "config:\n  gpuferry:provider: local\n# saved meanwhile\n"
    monkeypatch.setattr(
        auditing, "confirm", lambda question, yes: project.stack_file.write_text(mine)
    )
    with pytest.raises(SpecError, match="changed by somebody else"):
        run(project)
    assert project.stack_file.read_text() == mine
