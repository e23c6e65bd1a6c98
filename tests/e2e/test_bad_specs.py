"""A wrong stack file is refused in one sentence, before anything is touched."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import NewStack, Stack

SERVER: dict[str, Any] = {"name": "gpu-1"}


@pytest.fixture(scope="module")
def stack(new_stack: NewStack) -> Stack:
    return new_stack()


CASES = [
    (
        "unknown key",
        {"servers": [{**SERVER, "cpu": 2}]},
        "servers[0].cpu: unknown key; did you mean 'cpus'?",
    ),
    (
        "bad network",
        {"servers": [SERVER], "firewall": {"ssh_from": ["10.0.0.1/8"]}},
        "did you mean 10.0.0.0/8?",
    ),
    (
        "world",
        {"servers": [SERVER], "firewall": {"ssh_from": ["::/0"]}},
        "ssh_open_to_the_world",
    ),
    ("two names", {"servers": [SERVER, SERVER]}, "the name 'gpu-1' is used 2 times"),
    ("bad name", {"servers": [{"name": "GPU_1"}]}, "'GPU_1' is not a usable name"),
    (
        "bad bucket",
        {"servers": [SERVER], "object_stores": [{"name": "Data"}]},
        "'Data' is not a bucket name",
    ),
    (
        "too large",
        {"servers": [{**SERVER, "cpus": 512}]},
        "servers[0] (gpu-1).cpus: 512, but this machine has",
    ),
    (
        "port twice",
        {"servers": [{**SERVER, "open_ports": [{"port": 1}, {"port": 1}]}]},
        "port 1/tcp is declared 2 times",
    ),
]


@pytest.mark.parametrize(("config", "sentence"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
@pytest.mark.parametrize("verb", ["up", "preview"])
def test_a_wrong_spec_is_refused_with_the_path_of_the_key(
    stack: Stack, verb: str, config: dict[str, Any], sentence: str
) -> None:
    stack.declare(**config)
    done = stack.ferry(verb, code=2)
    assert sentence in done.stderr
    assert done.stderr.startswith(f"error: Pulumi.{stack.name}.yaml: ")
    assert len(done.stderr.splitlines()) == 1
    assert stack.containers() == []


def test_a_preview_of_a_new_stack_plans_all_of_it_and_makes_nothing(stack: Stack) -> None:
    stack.declare(servers=[SERVER], object_stores=[{"name": "datasets"}])
    answer = stack.json("preview")
    assert answer["exists"] is False
    operations = {p["resource"]: p["operation"] for p in answer["planned"]}
    assert operations["gpu-1-machine"] == operations["datasets-bucket"] == "create"
    assert stack.containers() == []
    assert "has no servers yet" in stack.ferry("nodes", code=2).stderr


def test_a_missing_stack_file_is_named(stack: Stack) -> None:
    stack.file.unlink(missing_ok=True)
    assert f"Pulumi.{stack.name}.yaml: no such stack file" in stack.ferry("up", code=2).stderr


def test_errors_are_json_when_asked(stack: Stack) -> None:
    stack.declare(servers=[])
    answer = stack.json("up", code=2)
    assert answer["ok"] is False
    assert "gpuferry:servers" in answer["error"]
