"""One stack through its whole life. The tests build on each other, in this order."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from gpuferry.nodes.local.docker import docker, labelled

from .conftest import SERVER, NewStack, Stack

PORT = {"port": 8080, "protocol": "tcp"}


@pytest.fixture(scope="module")
def stack(_baked: None, new_stack: NewStack) -> Stack:
    """A stack that is up."""
    stack = new_stack()
    stack.declare(servers=[SERVER], object_stores=[{"name": "datasets"}])
    answer = stack.json("up")
    assert answer["ok"], answer
    assert answer["changes"]["create"] >= 10
    return stack


def test_every_check_of_a_new_server_passed(stack: Stack) -> None:
    answer = stack.json("check")
    status = {v["id"]: v["status"] for v in answer["verdicts"]}
    assert answer["ok"]
    # No user is declared, so that nothing can be said about users.
    assert {k for k, v in status.items() if v != "pass"} == {"base.users"}
    assert {k.split(".")[0] for k in status} >= {"base", "ssh_hardening", "firewall", "docker"}
    assert "object_store.round_trip" in status


def test_the_server_runs_and_is_reached_by_name(stack: Stack) -> None:
    assert stack.ferry("ssh", "gpu-1", "--", "systemctl", "is-system-running").stdout == "running\n"
    (server,) = stack.json("nodes")["servers"]
    assert (server["name"], server["state"], server["user"]) == ("gpu-1", "running", "ferry")


def test_the_exit_code_of_a_remote_command_is_handed_on(stack: Stack) -> None:
    stack.ferry("ssh", "gpu-1", "--", "exit 7", code=7)
    stack.ferry("ssh", "gpu-1", "--", "exit 255", code=255)


def test_an_unknown_server_is_named_with_the_known_ones(stack: Stack) -> None:
    said = stack.ferry("ssh", "gpu-2", "--", "true", code=2).stderr
    assert "has no server 'gpu-2'; it has: gpu-1." in said
    assert "Did you mean gpu-1?" in said


def test_a_second_up_changes_nothing(stack: Stack) -> None:
    assert set(stack.json("up")["changes"]) == {"same"}


def test_a_teams_caps_stop_preview_and_up(stack: Stack, tmp_path: Path) -> None:
    caps = tmp_path / "team.json"
    caps.write_text('{"labels-required": {"labels": ["owner"]}}')
    for command in ("preview", "up"):
        said = stack.ferry(command, "--policy-config", str(caps), code=1).stderr
        assert "policy labels-required" in said
        assert "gpu-1 lacks the labels owner" in said
    caps.write_text('{"price-cap": {"max_price_per_hour": 5}, "gpu-cap": {"max_gpus": 0}}')
    done = stack.ferry("up", "--policy-config", str(caps), "--json")
    assert "price-cap could not be evaluated" in done.stderr
    assert set(json.loads(done.stdout)["changes"]) == {"same"}
    (advice,) = stack.json("preview", "--policy-config", str(caps))["policy"]
    assert "price-cap could not be evaluated" in advice


def test_converging_again_plays_nothing(stack: Stack) -> None:
    (result,) = stack.json("converge")["servers"]
    assert (result["changed"], result["played"]) == (0, [])


def test_a_full_converge_changes_nothing(stack: Stack) -> None:
    (result,) = stack.json("converge", "--full")["servers"]
    assert (result["changed"], result["skipped"]) == (0, []), result["changed_tasks"]


def test_preview_touches_nothing(stack: Stack) -> None:
    before = docker("ps", "-a", "--no-trunc", "--format", "{{.ID}} {{.Names}}")
    stack.declare(servers=[{**SERVER, "open_ports": [PORT]}, {**SERVER, "name": "gpu-2"}])
    planned = stack.json("preview")
    operations = {p["resource"]: p["operation"] for p in planned["planned"]}
    assert operations["gpu-2-machine"] == "create"
    assert operations["datasets-bucket"] == "delete"
    assert stack.containers() == [
        f"gpuferry-{stack.name}-gpu-1",
        f"gpuferry-{stack.name}_objectstore",
    ]
    own = [line for line in before.splitlines() if stack.name in line]
    after = docker("ps", "-a", "--no-trunc", "--format", "{{.ID}} {{.Names}}").splitlines()
    assert [line for line in after if stack.name in line] == own
    stack.declare(servers=[SERVER], object_stores=[{"name": "datasets"}])
    assert set(stack.json("up")["changes"]) == {"same"}


def test_data_is_not_removed_without_a_word(stack: Stack) -> None:
    stack.declare(servers=[{**SERVER, "name": "renamed"}])
    said = stack.ferry("up", code=2).stderr
    assert "datasets, the key of its sealed data, gpu-1's disk: no longer declared" in said
    assert "repeat with --yes" in said
    stack.declare(servers=[SERVER], object_stores=[{"name": "datasets"}])
    assert set(stack.json("up")["changes"]) == {"same"}


def test_a_stack_that_the_state_does_not_know_is_not_swept_without_a_word(
    stack: Stack, tmp_path: Path
) -> None:
    elsewhere = {**stack.environment, "PULUMI_BACKEND_URL": f"file://{tmp_path}"}
    done = subprocess.run(
        stack.command("down"),
        env=elsewhere,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"gpuferry-{stack.name}-gpu-1" in done.stderr
    assert len(stack.containers()) == 2


def test_another_gpuferrys_things_are_left_alone(stack: Stack, tmp_path: Path) -> None:
    other = {**stack.environment, "XDG_DATA_HOME": str(tmp_path)}
    done = subprocess.run(
        stack.command("down", "--yes"), env=other, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(stack.containers()) == 2


def test_plain_pulumi_works_in_the_printed_environment(stack: Stack) -> None:
    done = stack.shell(
        "pulumi refresh --yes --skip-preview >/dev/null && "
        "pulumi stack output servers --json && "
        "pulumi up --yes --skip-preview"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"host_key"' in done.stdout  # refresh kept the outputs
    assert re.search(r"Resources:\s+\d+ unchanged", done.stdout)


def test_drift_is_found_named_and_mended(stack: Stack) -> None:
    stack.ferry("ssh", "gpu-1", "--", "echo 'PermitRootLogin yes' | sudo tee -a "
                "/etc/ssh/sshd_config.d/00-gpuferry.conf >/dev/null")  # fmt: skip
    said = stack.ferry("converge", "--check", code=3).stderr
    assert "gpu-1 (ssh_hardening: " in said
    (result,) = stack.json("converge")["servers"]
    assert result["played"] == ["ssh_hardening"]
    assert any("00-gpuferry.conf" in reason for reason in result["reasons"]["ssh_hardening"])
    stack.ferry("converge", "--check")


def test_a_failed_check_fails_with_server_and_check_named(stack: Stack) -> None:
    stack.ferry("ssh", "gpu-1", "--", "sudo nft delete table inet gpuferry")
    answer = stack.json("check", "--only", "firewall", code=1)
    failed = {v["id"]: v for v in answer["verdicts"] if v["status"] == "fail"}
    assert "firewall.policy" in failed
    assert failed["firewall.policy"]["server"] == "gpu-1"
    assert f"./ferry converge --stack {stack.name} gpu-1" in failed["firewall.policy"]["next_step"]
    stack.ferry("converge")
    stack.ferry("check", "--only", "firewall")


def test_data_survives_stop_and_start(stack: Stack) -> None:
    stack.ferry("ssh", "gpu-1", "--", "echo precious | sudo tee /data/kept >/dev/null")
    docker("stop", *stack.containers())
    assert stack.json("nodes")["servers"][0]["state"] == "exited"
    said = stack.ferry("up").stderr
    assert "starting gpu-1, which was exited" in said
    assert stack.ferry("ssh", "gpu-1", "--", "cat /data/kept").stdout == "precious\n"
    stack.ferry("check")


def test_up_after_a_reboot_waits_for_the_shutdown_and_for_ssh(stack: Stack) -> None:
    slow = "-p RemainAfterExit=yes -p ExecStop='/bin/sleep 8' true"  # still running when `up` looks
    stack.ferry("ssh", "gpu-1", "--", f"sudo systemd-run --unit=slow {slow}")
    # Not by logind, which takes a moment before the manager knows of it.
    reboot = "systemctl start --no-block --job-mode=replace-irreversibly reboot.target"
    stack.ferry("ssh", "gpu-1", "--", f"sudo {reboot}")
    said = stack.ferry("up").stderr
    assert "starting gpu-1, which was exited" in said
    assert stack.json("nodes")["servers"][0]["state"] == "running"


def test_an_object_store_that_vanished_comes_back_with_its_data(stack: Stack) -> None:
    folder = Path(stack.environment["XDG_DATA_HOME"]) / "gpuferry/local" / stack.name
    kept = folder / "objects/objects/datasets/precious"
    kept.write_text("x")
    docker("rm", "-f", f"gpuferry-{stack.name}_objectstore")
    answer = stack.json("up")
    assert answer["changes"]["replace"] == 2  # the store, and a new verification
    assert kept.read_text() == "x"
    stack.ferry("check", "--only", "object_store")
    kept.unlink()


def test_a_machine_that_vanished_is_made_again_with_its_data(stack: Stack) -> None:
    docker("rm", "-f", f"gpuferry-{stack.name}-gpu-1")
    said = stack.ferry("up").stderr
    assert "gpu-1-machine is gone; it is made again" in said
    assert stack.ferry("ssh", "gpu-1", "--", "cat /data/kept").stdout == "precious\n"


def test_resizing_keeps_system_and_data(stack: Stack) -> None:
    before = stack.json("nodes")["servers"][0]
    machine = stack.ferry("ssh", "gpu-1", "--", "cat /etc/machine-id").stdout
    stack.ferry("resize", "gpu-1", "--memory-gib", "1.5", "--data-disk-gib", "2")
    after = stack.json("nodes")["servers"][0]
    assert (after["address"], after["host_key"]) == (before["address"], before["host_key"])
    assert after["memory_gib"] == "1.5"
    assert stack.ferry("ssh", "gpu-1", "--", "cat /etc/machine-id").stdout == machine
    size = stack.ferry("ssh", "gpu-1", "--", "df --output=size -BM /data | tail -1").stdout
    assert 1900 < int(size.strip().rstrip("M")) <= 2048
    assert stack.ferry("ssh", "gpu-1", "--", "cat /data/kept").stdout == "precious\n"
    said = stack.ferry("resize", "gpu-1", "--data-disk-gib", "1", code=2).stderr
    assert "can only grow" in said


def test_the_number_of_servers_grows_and_shrinks(stack: Stack) -> None:
    stack.ferry("resize", "--servers", "2")
    servers = {s["name"]: s for s in stack.json("nodes")["servers"]}
    assert set(servers) == {"gpu-1", "gpu-2"}
    assert servers["gpu-1"]["address"] != servers["gpu-2"]["address"]
    assert {v["server"] for v in stack.json("check")["verdicts"]} == {"gpu-1", "gpu-2"}
    said = stack.ferry("resize", "--servers", "1", code=2).stderr
    assert "gpu-2 and the data on their disks will be removed" in said
    stack.ferry("resize", "--servers", "1", "--yes")
    assert [s["name"] for s in stack.json("nodes")["servers"]] == ["gpu-1"]


def test_rebuilding_gives_a_fresh_system_in_the_old_place(stack: Stack) -> None:
    before = stack.json("nodes")["servers"][0]
    stack.ferry("ssh", "gpu-1", "--", "sudo touch /etc/old-system")
    stack.ferry("rebuild", "gpu-1")
    after = stack.json("nodes")["servers"][0]
    for key in ("name", "address", "host_key"):
        assert after[key] == before[key]
    stack.ferry("ssh", "gpu-1", "--", "test ! -e /etc/old-system")
    assert stack.ferry("ssh", "gpu-1", "--", "cat /data/kept").stdout == "precious\n"


def test_no_private_key_or_secret_is_readable_in_state_config_or_logs(stack: Stack) -> None:
    root = Path(stack.environment["XDG_DATA_HOME"]).parent
    entries = [p for p in root.rglob("*") if p.is_file() and "disks" not in p.parts]
    assert any(".pulumi" in path.parts for path in entries)
    for path in entries:
        text = path.read_bytes()
        assert b"PRIVATE KEY" not in text, path
    passphrase = root / "config" / "gpuferry" / "passphrase"
    assert passphrase.stat().st_mode & 0o777 == 0o600


def test_protected_data_is_kept_from_a_plain_pulumi_too(stack: Stack) -> None:
    grown = {**SERVER, "memory_gib": 1.5, "data_disk_gib": 2}  # as it was resized
    store = {"object_stores": [{"name": "datasets"}]}
    stack.declare(servers=[grown], policy={"protect_data": True}, **store)
    assert set(stack.json("up")["changes"]) == {"same"}
    done = stack.shell("pulumi destroy --yes --skip-preview")
    assert done.returncode != 0
    assert "protected" in done.stdout + done.stderr
    folder = Path(stack.environment["XDG_DATA_HOME"]) / "gpuferry/local" / stack.name
    assert (folder / "disks/gpu-1.ext4").exists()  # the machine itself may go, it holds no data
    assert (folder / "objects/objects/datasets").is_dir()
    assert "policy.protect_data keeps" in stack.ferry("down", "--yes", code=1).stderr
    # The word is taken back in the stack file, together with what it protected.
    stack.declare(servers=[grown])
    assert stack.json("up", "--yes")["changes"]["delete"] >= 1


def test_down_leaves_nothing_behind(stack: Stack) -> None:
    stack.ferry("down", "--yes")
    for kind in ("container", "network", "volume"):
        assert labelled(kind, stack.name) == []
    assert not (Path(stack.environment["XDG_DATA_HOME"]) / "gpuferry/local" / stack.name).exists()
    mounts = Path("/proc/mounts").read_text()
    assert stack.name not in mounts
    assert "does not exist; nothing to remove" in stack.ferry("down", "--yes").stdout
    said = stack.ferry("nodes", code=2).stderr
    assert "has no servers yet" in said
