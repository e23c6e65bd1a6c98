"""What would interrupt GPU work, who works, and what is said about it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuferry.driver import gather
from gpuferry.driver.facts import Use
from gpuferry.paths import REPOSITORY
from gpuferry.shared import shared

disturb, freeze = shared("disturb"), shared("freeze")


def gpu_use() -> Any:
    return gather.gatherer("gpu_use")


@pytest.mark.parametrize(
    ("command", "does"),
    [
        ("systemctl daemon-reload", "reload"),
        ("systemctl --system daemon-reload", "reload"),
        ("/usr/bin/systemctl daemon-reexec", "reload"),
        ("sh -c 'cp a b; systemctl daemon-reload;'", "reload"),
        ("systemctl enable nvidia-cdi-refresh.service", "reload"),
        ("systemctl enable --now chrony.service", "reload"),
        ("systemctl disable x.service", "reload"),
        ("systemctl mask x.service", "reload"),
        ("systemctl enable --no-reload x.service", ""),
        ("systemctl is-enabled docker.service", ""),
        ("systemctl restart docker", "stop or restart"),
        ("systemctl restart docker.service", "stop or restart"),
        ("systemctl stop docker.socket", "stop or restart"),
        ("systemctl try-restart containerd.service", "stop or restart"),
        ("systemctl restart nvidia-persistenced.service", "stop or restart"),
        ("systemctl restart nvidia-fabricmanager", "stop or restart"),
        ("systemctl restart nvidia-cdi-refresh.service", ""),
        ("systemctl restart nvidia-persistenced-watch.service", ""),
        ("systemctl restart systemd-journald.service", ""),
        ("systemctl reload docker.service", ""),
        ("systemctl start docker.service", ""),
        ("systemctl show --property=ActiveState docker.service", ""),
        ("service docker restart", "stop or restart"),
        ("systemctl reboot", "reboot"),
        ("systemctl poweroff", "reboot"),
        ("/sbin/reboot", "reboot"),
        ("shutdown -r now", "reboot"),
        ("modprobe -r nvidia_uvm nvidia", "unload"),
        ("rmmod nvidia", "unload"),
        ("modprobe --all nvidia nvidia-uvm", ""),
        ("nvidia-smi --gpu-reset -i 0", "reset"),
        ("nvidia-smi -i 0 -mig 1", "reset"),
        ("nvidia-smi -L", ""),
        ("nvidia-ctk cdi generate --output=/etc/cdi/nvidia.json", ""),
        ("ldconfig", ""),
        ("update-initramfs -u", ""),
        ("sysctl --quiet --write net.ipv4.ip_forward=1", ""),
    ],
)
def test_what_a_command_does_to_gpu_work_is_known(command: str, does: str) -> None:
    said = disturb.effect(shlex.split(command))
    assert said.startswith(does) if does else said == ""


PYTHON = {"pid": 7, "name": "python3", "gpus": [1]}


@pytest.mark.parametrize(
    ("use", "works"),
    [
        ({}, []),
        ({"compute": [PYTHON], "compute_state": "ok"}, ["process 7 (python3) on GPU 1"]),
        ({"holders": [{**PYTHON, "gpus": []}]}, ["process 7 (python3)"]),
        # A process that is seen both ways is one; its GPUs are those of both.
        (
            {"holders": [{**PYTHON, "gpus": [0]}], "compute": [{**PYTHON, "name": "/opt/x"}]},
            ["process 7 (python3) on GPU 0, 1"],
        ),
        ({"holders": [{"pid": 1, "name": "nvidia-persiste"}]}, []),
        ({"holders": [{"pid": 1, "name": "nv-fabricmanage"}]}, []),
        ({"containers": [{"id": "a", "name": "train"}]}, ["container train"]),
        ({"compute_state": "hung"}, ["processes: unknown (nvidia-smi hung)"]),
        ({"compute_state": "failed"}, ["processes: unknown (nvidia-smi failed)"]),
        ({"compute_state": "absent", "containers_state": "absent"}, []),
        ({"containers_state": "hung"}, ["containers: unknown (docker hung)"]),
        ({"containers_state": "failed"}, ["containers: unknown (docker failed)"]),
    ],
)
def test_who_works_is_told_and_what_cannot_be_seen_counts_as_work(
    use: dict[str, Any], works: list[str]
) -> None:
    assert disturb.work(use) == works
    assert Use.model_validate(use).work == works


def nobody() -> list[str]:
    return []


def somebody() -> list[str]:
    return ["process 7 (python3) on GPU 1"]


def not_asked() -> list[str]:
    raise AssertionError("a run with nothing to change looked at the GPUs")


@pytest.mark.parametrize(
    ("effects", "look", "allowed", "check", "result"),
    [
        ([], not_asked, False, False, []),
        (["", ""], not_asked, False, False, []),
        (["reboot the server"], nobody, False, False, []),
        (["reboot the server"], somebody, False, False, "refused"),
        (["reboot the server"], somebody, True, False, ["reboot the server while used by"]),
        (["reboot the server"], somebody, False, True, ["reboot the server while used by"]),
    ],
)
def test_the_guard(
    effects: Sequence[str], look: Any, allowed: bool, check: bool, result: list[str] | str
) -> None:
    module = gpu_use()

    def call() -> list[str]:
        return list(module.guard(effects, allowed=allowed, check_mode=check, look=look))

    if result == "refused":
        with pytest.raises(module.Disturbs) as refused:
            call()
        for word in ("process 7 (python3) on GPU 1", "reboot the server", "--disturb", "Let the"):
            assert word in str(refused.value)
    else:
        found = call()
        assert len(found) == len(result)
        assert all(a.startswith(b) for a, b in zip(found, result, strict=True))


@pytest.mark.parametrize(
    ("files", "possible"),
    [
        ([], False),
        (["dev/null"], False),
        (["dev/nvidia0"], True),
        (["dev/nvidiactl"], True),
        (["usr/bin/nvidia-smi"], True),
    ],
)
def test_a_server_without_gpus_is_not_asked(
    tmp_path: Path, files: list[str], possible: bool
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert gpu_use().here(str(tmp_path)) is possible


def answers(said: dict[str, tuple[int, str]]) -> Any:
    """A command runner: the beginning of a command line to its exit code and output."""

    def run(argv: Sequence[str], seconds: float) -> dict[str, Any]:
        line = shlex.join(argv)
        for start, (code, out) in said.items():
            if line.startswith(start):
                if code == 124:
                    return {"state": "hung", "code": None, "out": ""}
                return {"state": "ok" if code == 0 else "failed", "code": code, "out": out}
        return {"state": "absent", "code": None, "out": ""}

    return run


@pytest.mark.parametrize(
    ("code", "shim", "works"),
    [
        # Nobody can work through an NVML that has no driver, and nobody holds a device.
        (9, False, []),
        (6, False, []),
        (18, False, []),
        (15, False, ["processes: unknown (nvidia-smi failed)"]),
        (124, False, ["processes: unknown (nvidia-smi hung)"]),
        # Docker does not answer: its containers live on under their shims.
        (9, True, ["containers: unknown (docker failed)"]),
    ],
)
def test_unknown_is_in_use_where_work_is_possible(
    tmp_path: Path, code: int, shim: bool, works: list[str]
) -> None:
    for name in ("dev/nvidia0", "run/docker.sock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "proc/44").mkdir(parents=True)
    (tmp_path / "proc/44/comm").write_text("containerd-shim\n" if shim else "bash\n")
    module = gather.gatherer("gpu_host")
    run = answers({"nvidia-smi": (code, ""), "docker ps": (1, "cannot connect")})
    assert gpu_use().users(module.Host(str(tmp_path), run)) == works


@pytest.mark.parametrize(
    ("effects", "users"), [([], ["a"]), (["", ""], ["a"]), (["reboot"], []), ([], [])]
)
def test_nothing_is_said_where_nothing_or_nobody_is_disturbed(
    effects: list[str], users: list[str]
) -> None:
    assert disturb.refusal(effects, users) == ""


def test_the_families_of_the_guard_are_those_of_the_freeze() -> None:
    defaults = yaml.safe_load((REPOSITORY / "roles/freeze/defaults/main.yml").read_text())
    assert list(freeze.FAMILIES) == defaults["freeze_families"]
