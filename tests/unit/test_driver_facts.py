"""The gatherer reads servers through one layer, and never hangs or tells secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpuferry.driver import Facts, gather, plan_driver
from gpuferry.errors import SpecError
from gpuferry.paths import REPOSITORY

FIXTURES = REPOSITORY / "tests" / "fixtures" / "driver"
FACTS = gather.gatherer()
HOST = sys.modules["ansible.module_utils.gpu_host"]
APT = sys.modules["ansible.module_utils.gpu_apt"]


def facts(name: str) -> Facts:
    return gather.from_path(FIXTURES / name)


def test_a_bare_server_is_read_whole() -> None:
    seen = facts("debian-13-l4-bare")
    assert [gpu.device for gpu in seen.gpus] == ["27b8", "27b8"]
    assert seen.gpus[0].driver == "nouveau"
    assert seen.gpus[0].max_link_width == "16"
    assert (seen.os.id, seen.os.version_id, seen.os.codename) == ("debian", "13", "trixie")
    assert seen.kernel.release == "6.12.118+deb13-amd64"
    assert not seen.kernel.headers_installed
    assert seen.secure_boot.state == "off"
    assert seen.candidates["nvidia-kernel-dkms"].candidate == "550.163.01-2"
    assert seen.apt.lists
    assert seen.nouveau.loaded
    assert not seen.nouveau.blacklisted
    assert seen.boot.reboot_packages == ["linux-image-amd64"]
    assert seen.boot.uptime_seconds == 4711
    assert seen.nvidia_smi.state == "absent"


def test_a_server_at_work_is_read_whole() -> None:
    seen = facts("debian-13-h100-at-work")
    assert len(seen.gpus) == 8
    assert len([device for device in seen.pci if device.device == "22a3"]) == 4
    assert (seen.module.version, seen.module.flavour) == ("580.126.09", "open")
    assert (seen.module.disk_version, seen.module.disk_flavour) == ("580.126.09", "open")
    assert seen.module.disk_signer == "DKMS module signing key"
    assert seen.library.version == "580.126.09"
    assert seen.secure_boot.model_dump() == {
        "state": "on", "modules_must_be_signed": "yes", "mok": "enrolled",
    }  # fmt: skip
    assert set(seen.packages) == {"libcuda1", "nvidia-fabricmanager"}
    assert seen.packages["libcuda1"].held
    assert [d.kernel for d in seen.dkms] == ["6.12.118+deb13-amd64", "6.12.43+deb13-amd64"]
    assert {d.state for d in seen.dkms} == {"installed"}
    assert [c.files for c in seen.apt.conflicts] == [
        ["/etc/apt/sources.list.d/cuda-a.list", "/etc/apt/sources.list.d/cuda-b.sources"]
    ]
    assert len(seen.apt.nvidia) == 2
    assert len(seen.nvidia_smi.gpus) == 7
    assert seen.use.work == ["process 4242 (python3) on GPU 0", "container train"]
    assert {p.name for p in seen.use.holders} == {"python3", "nvidia-persiste"}


def test_an_nvidia_smi_in_state_d_is_a_fact_and_no_other_is_started() -> None:
    asked: list[list[str]] = []

    def run(argv: list[str], seconds: float) -> dict[str, Any]:
        asked.append(argv)
        return {"state": "absent", "code": None, "out": ""}

    raw = FACTS.gather(str(FIXTURES / "debian-12-v100-hung" / "root"), run)
    assert raw["nvidia_smi"]["state"] == "hung"
    assert raw["nvidia_smi"]["pids"] == [911]
    assert not [argv for argv in asked if argv[0] == "nvidia-smi"]


def test_a_process_that_ends_while_it_is_looked_at_does_not_stop_the_gatherer(
    tmp_path: Path,
) -> None:
    (tmp_path / "proc" / "17").mkdir(parents=True)
    (tmp_path / "proc" / "17" / "comm").symlink_to("gone")
    host = HOST.Host(str(tmp_path))
    assert FACTS.processes(host) == []
    assert gather.gatherer("gpu_work").holders(host) == []


def test_debians_names_of_module_and_library_are_known() -> None:
    seen = facts("debian-12-v100-hung")
    assert (seen.module.version, seen.module.flavour) == ("535.261.03", "proprietary")
    assert (seen.module.disk_version, seen.module.disk_flavour) == ("535.261.03", "proprietary")
    assert seen.library.version == "535.261.03"
    assert seen.dkms[0].model_dump()["kernel"] == "6.1.0-57-amd64"


def test_a_virtual_gpu_is_told_by_its_capability() -> None:
    seen = facts("debian-12-vgpu-guest")
    assert seen.gpus[0].vgpu
    assert not facts("debian-13-l4-bare").gpus[0].vgpu


@pytest.mark.parametrize(
    ("name", "action", "reason"),
    [
        ("debian-13-l4-bare", "install", None),
        ("debian-13-h100-at-work", "leave", None),
        ("debian-12-v100-hung", "refuse", "driver_hung"),
        ("debian-12-vgpu-guest", "refuse", "vgpu_guest"),
    ],
)
def test_a_report_leads_to_a_plan(name: str, action: str, reason: str | None) -> None:
    plan = plan_driver(facts(name))
    assert plan.action == action
    assert (plan.refusal.reason if plan.refusal else None) == reason


def test_a_command_that_ignores_its_end_is_left_after_the_deadline() -> None:
    started = time.monotonic()
    done = HOST.run_command(["sh", "-c", "trap '' TERM; sleep 600 & wait; sleep 600"], 0.3)
    assert done == {"state": "hung", "code": None, "out": ""}
    assert time.monotonic() - started < 6


def test_commands_fail_and_lack_in_different_words() -> None:
    assert HOST.run_command(["sh", "-c", "echo no; exit 9"]) == {
        "state": "failed", "code": 9, "out": "no\n",
    }  # fmt: skip
    assert HOST.run_command(["/no/such/program"])["state"] == "absent"


def test_undecodable_output_does_not_stop_the_gatherer() -> None:
    assert HOST.run_command(["printf", r"\377x"])["out"] == "\N{REPLACEMENT CHARACTER}x"


def test_this_machine_can_be_read_and_its_recording_says_the_same(tmp_path: Path) -> None:
    host = HOST.Host()
    first = Facts.model_validate(FACTS.gather_from(host))
    assert first.os.id
    assert first.kernel.release == os.uname().release
    gather.write_recording(host.recording(), tmp_path / "report")
    again = gather.from_path(tmp_path / "report")
    changes = {"seconds": 0}
    assert again.model_copy(update=changes) == first.model_copy(update=changes)


def test_passwords_in_sources_stay_out_of_facts_and_recordings() -> None:
    host = HOST.Host(
        str(FIXTURES / "debian-13-l4-bare" / "root"),
        gather.replay(FIXTURES / "debian-13-l4-bare" / "commands.json"),
    )
    raw = FACTS.gather_from(host)
    assert "repo.example.com" in json.dumps(host.recording())
    assert "CANARY" not in json.dumps([raw, host.recording()])


def test_a_recording_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    for files, links in (
        ({"/../outside": "x"}, {}),
        ({"/proc/1/fd/3/x": "x"}, {"/proc/1/fd/3": str(tmp_path)}),
    ):
        recording = {"files": {}, "links": links, "commands": {}, "folders": {}}
        folder = tmp_path / "report"
        gather.write_recording(recording, folder)
        with pytest.raises(SpecError, match="leads"):
            gather.write_recording({**recording, "files": files, "links": {}}, folder)
    assert not (tmp_path / "outside").exists()
    assert not (tmp_path / "x").exists()


def test_what_is_sent_to_servers_runs_with_nothing_but_python() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-"],
        input=gather.script({"record": True}).encode(),
        capture_output=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    assert Facts.model_validate(answer["facts"]).kernel.release == os.uname().release
    assert answer["recording"]["files"]["/etc/os-release"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("deb http://a/x/ s main", [("http://a/x", "s", "")]),
        ("deb [signed-by=/k.gpg arch=amd64] http://a/x s", [("http://a/x", "s", "/k.gpg")]),
        ("# deb http://a s", []),
        ("deb-src http://a s main", []),
    ],
)
def test_one_line_sources_are_read(text: str, expected: list[tuple[str, str, str]]) -> None:
    found = APT.one_line_sources("f", text)
    assert [(e["uri"], e["suite"], e["signed_by"]) for e in found] == expected


def test_deb822_sources_are_read_and_disabled_ones_left_out() -> None:
    text = "Types: deb\nURIs: http://a http://b\nSuites: s\nSigned-By: /k\n\nEnabled: no\nURIs: c\n"
    assert [(e["uri"], e["signed_by"]) for e in APT.deb822_sources("f", text)] == [
        ("http://a", "/k"), ("http://b", "/k"),
    ]  # fmt: skip


def test_a_package_without_versions_is_no_candidate() -> None:
    text = (
        "a:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n"
        "     1.0-1 -1\n        500 http://m s/main amd64 Packages\n"
        "b:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n"
    )
    found = APT.parse_policy(text)
    assert found["a"] == {"candidate": "", "versions": ["1.0-1"], "origins": ["http://m s/main"]}
    assert "b" not in found


def test_what_apt_would_do_is_read_from_its_own_words() -> None:
    text = (
        "Remv docker.io [1.0]\nInst nvidia-smi [1.0] (2.0 Debian:13/stable [amd64])\n"
        "Inst libx (3 a [amd64])\nConf libx (3 a [amd64])\n"
    )
    host = HOST.Host(run=lambda argv, seconds: {"state": "ok", "code": 0, "out": text})
    found = APT.simulation(host, ["nvidia-smi"])
    assert found["install"] == [
        {"name": "nvidia-smi", "version": "2.0", "old": "1.0"},
        {"name": "libx", "version": "3", "old": ""},
    ]
    assert found["remove"] == ["docker.io"]


@pytest.mark.parametrize("content", [None, "{", '{"facts": {"nonsense": 1}}'])
def test_unusable_facts_are_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "facts.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SpecError, match="no facts of a server"):
        gather.from_path(path)


@pytest.mark.parametrize(
    ("file", "simulated"), [("scenario.json", True), ("scenario", True), ("driver", False)]
)
def test_gpus_are_simulated_where_either_form_of_a_scenario_is(
    file: str, simulated: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "root/var/lib/gpusim"
    folder.mkdir(parents=True)
    (folder / file).write_text("")
    (tmp_path / "commands.json").write_text("{}")
    assert gather.from_path(tmp_path).simulated is simulated
