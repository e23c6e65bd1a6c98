"""A team keeps its state in a bucket: a whole life of a stack on a real S3 server with TLS."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
import yaml

from gpuferry.nodes.local import network, survey
from tests.support.bucket_store import BucketStore

from .conftest import SERVER, NewStack, Stack

KEEPER = f"e{os.getpid()}-100"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketStore]:
    """Apart from the stack whose state it keeps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("keeper")))
        try:
            yield BucketStore(KEEPER, network.create(KEEPER), "state")
        finally:
            survey.sweep(KEEPER)


@pytest.fixture(scope="module")
def stack(new_stack: NewStack, store: BucketStore) -> Stack:
    """A stack whose state is there and nowhere else."""
    stack = new_stack()
    authority = stack.folder / "ca.pem"
    authority.write_text(store.args.ca_pem)
    at = f"region={store.access['region']}&endpoint={store.access['endpoint']}"
    program = stack.folder / "Pulumi.yaml"
    backend = {"backend": {"url": f"s3://state?{at}&s3ForcePathStyle=true"}}
    program.write_text(yaml.safe_dump(yaml.safe_load(program.read_text()) | backend))
    stack.environment |= {
        "AWS_ACCESS_KEY_ID": store.access["access_key"],
        "AWS_SECRET_ACCESS_KEY": store.access["secret_key"],
        "AWS_CA_BUNDLE": str(authority),
    }
    stack.declare(servers=[SERVER])
    return stack


def names(store: BucketStore) -> list[str]:
    """All objects: this store keeps each as a file."""
    files = (path for path in store.raw.rglob("*") if path.is_file())
    return [str(path.relative_to(store.raw)) for path in files]


def test_a_stack_comes_up_and_a_second_run_changes_nothing(
    stack: Stack, store: BucketStore
) -> None:
    assert stack.json("up")["ok"]
    assert set(stack.json("up")["changes"]) == {"same"}
    assert any(f"stacks/gpuferry/{stack.name}.json" in name for name in names(store))
    assert stack.ferry("ssh", "gpu-1", "--", "hostname").stdout == "gpu-1\n"
    kept = stack.environment["XDG_DATA_HOME"]
    assert not [f for _, _, files in os.walk(f"{kept}/gpuferry/state") for f in files]


def test_a_lock_is_explained_and_taken_over_with_a_word(stack: Stack, store: BucketStore) -> None:
    name = f".pulumi/locks/organization/gpuferry/{stack.name}/9e0c.json"
    held = {"pid": 7, "username": "anna", "hostname": "laptop", "timestamp": "2026-01-01T10:00:00Z"}
    (store.raw / name).parent.mkdir(parents=True, exist_ok=True)
    (store.raw / name).write_text(json.dumps(held))
    said = stack.ferry("up", code=2).stderr
    assert "in use: process 7 of anna on laptop, since 2026-01-01T10:00:00Z" in said
    assert "--take-over-lock" in said
    assert name in names(store)
    stack.ferry("up", "--take-over-lock")
    assert name not in names(store)


def test_down_leaves_nothing_of_it(stack: Stack, store: BucketStore) -> None:
    stack.ferry("down", "--yes")
    assert stack.containers() == []
    assert not any(f"stacks/gpuferry/{stack.name}.json" in name
                   for name in names(store) if "/backups/" not in name)  # fmt: skip
