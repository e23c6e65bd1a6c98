"""A team keeps its state in a bucket: a whole life of a stack on a real S3 server with TLS."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import boto3
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


def names(stack: Stack, store: BucketStore) -> set[str]:
    """All objects that are not deleted."""
    client = boto3.client(
        "s3",
        endpoint_url=store.access["endpoint"],
        region_name=store.access["region"],
        aws_access_key_id=store.access["access_key"],
        aws_secret_access_key=store.access["secret_key"],
        verify=stack.environment["AWS_CA_BUNDLE"],
    )
    return {each["Key"] for each in client.list_objects_v2(Bucket="state").get("Contents", ())}


def test_a_stack_comes_up_and_a_second_run_changes_nothing(
    stack: Stack, store: BucketStore
) -> None:
    assert stack.json("up")["ok"]
    assert set(stack.json("up")["changes"]) == {"same"}
    assert f".pulumi/stacks/gpuferry/{stack.name}.json" in names(stack, store)
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
    assert name in names(stack, store)
    stack.ferry("up", "--take-over-lock")
    assert name not in names(stack, store)


def test_down_leaves_nothing_of_it(stack: Stack, store: BucketStore) -> None:
    stack.ferry("down", "--yes")
    assert stack.containers() == []
    # Pulumi keeps a copy of its own, with another ending.
    assert f".pulumi/stacks/gpuferry/{stack.name}.json" not in names(stack, store)
