"""A stack with simulated GPUs from its baked image: plan, checks, faults, freeze."""

from __future__ import annotations

import datetime
import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator

import pytest

from gpuferry.desired import GPU_ROLES
from gpuferry.nodes.local.docker import docker
from tests.support.simulated import wait_until

from .conftest import SERVER, NewStack, Stack

GPUS = {"model": "L4", "count": 2}
T4 = {**SERVER, "gpu": {"model": "T4", "count": 1}, "baked": False}
# Everything that looks at a server from the outside.
WATCHED = {
    "object_stores": [{"name": "logs"}],
    "logs": {"encryption": True, "delay_seconds": 1},
    "monitoring": {},
}


@pytest.fixture(scope="module")
def stack(new_stack: NewStack) -> Iterator[Stack]:
    """A stack that is up, from an image baked for it; the image is removed afterwards."""
    stack = new_stack()
    stack.declare(servers=[{**SERVER, "gpu": GPUS}])
    (image,) = stack.json("image", "build", "node")["images"]
    try:
        stack.ferry("up")
        yield stack
    finally:
        stack.ferry("down", "--yes")
        subprocess.run(["docker", "image", "rm", image["image"]], check=True, capture_output=True)


def _verdicts(stack: Stack, *only: str, code: int = 0) -> dict[str, str]:
    options = [word for name in only for word in ("--only", name)]
    found = stack.json("check", *options, code=code)["verdicts"]
    return {v["id"]: v["status"] for v in found}


def test_the_server_started_from_the_baked_image(stack: Stack) -> None:
    facts = stack.json("up")["servers"]["gpu-1"]["provider_facts"]
    assert facts["baked"] == "yes"


def test_baking_again_finds_the_image(stack: Stack) -> None:
    (image,) = stack.json("image", "build", "node")["images"]
    assert image["seconds"] == 0


def test_the_real_nvidia_smi_lists_the_simulated_gpus(stack: Stack) -> None:
    said = stack.ferry("ssh", "gpu-1", "--", "nvidia-smi -L").stdout
    assert said.count("NVIDIA L4 (simulated)") == 2


def test_nothing_is_left_to_do_or_failed(stack: Stack) -> None:
    assert set(stack.json("up")["changes"]) == {"same"}
    (server,) = stack.json("converge", "--full")["servers"]
    assert (server["changed"], server["played"]) == (0, GPU_ROLES), server
    assert "fail" not in _verdicts(stack).values()


def test_top_shows_its_gpus(stack: Stack) -> None:
    (server,) = stack.json("top")["servers"]
    assert [gpu["state"] for gpu in server["gpus"]] == ["idle", "idle"], server
    text = stack.ferry("top", "--once").stdout
    assert text.count("L4 (simulated)") == 2
    assert "alerts: not watched" in text


def test_the_dashboard_answers_until_it_is_interrupted(stack: Stack) -> None:
    with stack.start("dashboard") as process:
        assert process.stdout is not None
        url = next(line.strip() for line in process.stdout if line.startswith("http://127.0.0.1:"))
        with urllib.request.urlopen(url + "now") as answer:
            told = json.load(answer)
        with urllib.request.urlopen(url) as answer:
            assert "<title>gpuferry</title>" in answer.read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert "Traceback" not in process.stdout.read()
    assert told["stack"] == stack.name
    assert [server["name"] for server in told["servers"]] == ["gpu-1"]


def test_every_gpu_verdict_that_passes_says_simulated(stack: Stack) -> None:
    found = stack.json("check", "--only", "gpu")["verdicts"]
    passed = [v for v in found if v["status"] == "pass" and v["id"].startswith("gpu.")]
    assert passed
    assert all("simulated" in v["measured"] for v in passed), passed


def test_the_plan_says_user_space_only(stack: Stack) -> None:
    answer = stack.json("plan", "driver", "gpu-1")
    assert (answer["plan"]["action"], answer["plan"]["source"]) == ("user_space", "simulated")


def test_a_fault_fails_the_check_and_clearing_it_heals(stack: Stack) -> None:
    stack.ferry("sim", "gpu-1", "fault", "throttle", "--gpu", "0", "--reason", "hw-thermal")
    assert _verdicts(stack, "gpu", code=1)["gpu.clocks"] == "fail"
    stack.ferry("sim", "gpu-1", "clear")
    assert _verdicts(stack, "gpu")["gpu.clocks"] == "pass"


def test_a_rebuild_keeps_the_gpus(stack: Stack) -> None:
    stack.ferry("rebuild", "gpu-1")
    said = stack.ferry("ssh", "gpu-1", "--", "nvidia-smi -L").stdout
    assert said.count("(simulated)") == 2


def test_other_gpus_are_another_machine(stack: Stack) -> None:
    stack.declare(servers=[T4], **WATCHED)
    stack.ferry("up")
    said = stack.ferry("ssh", "gpu-1", "--", "nvidia-smi -L").stdout
    assert said.count("Tesla T4 (simulated)") == 1


def _alerts(stack: Stack) -> set[str]:
    servers = stack.json("top")["servers"]
    return {alert["name"] for server in servers for alert in server["alerts"] or ()}


def test_a_fault_is_an_alert_and_logs_outlive_their_server(stack: Stack) -> None:
    """The stack is the one of the test before."""
    begun = datetime.datetime.now(datetime.UTC).isoformat()
    assert _alerts(stack) == set()
    stack.ferry("sim", "gpu-1", "fault", "lost", "--gpu", "0")
    wait_until("the alert of a lost GPU", lambda: "GpuFault" in _alerts(stack), 60)
    stack.ferry("ssh", "gpu-1", "--", "logger --tag e2e the last words")

    def told() -> list[str]:
        lines = stack.ferry("logs", "gpu-1", "--since", begun, "--json").stdout.splitlines()
        return [line["message"] for line in map(json.loads, lines)
                if line.get("identifier") == "e2e"]  # fmt: skip

    wait_until("the line in the store", lambda: told() == ["the last words"], 60)
    (container,) = (c for c in stack.containers() if c.endswith("-gpu-1"))
    docker("rm", "-f", container)
    assert told() == ["the last words"]
    assert stack.ferry("logs").stdout.split() == ["gpu-1"]
    text = stack.ferry("logs", "gpu-1", "--unit", "none").stderr
    assert "gpu-1 has no lines of the unit 'none'" in text


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        ({"model": "L40", "count": 1}, "cannot be simulated"),
        ({"model": "L4", "count": 0}, "greater than or equal to 1"),
        ({"model": "L4", "count": 17}, "less than or equal to 16"),
    ],
)
def test_gpus_that_cannot_be_had_are_refused(
    stack: Stack, gpu: dict[str, object], said: str
) -> None:
    stack.declare(servers=[{**SERVER, "gpu": gpu}])
    assert said in stack.ferry("up", code=2).stderr
