"""The local S3 server: TLS, buckets of their own users, versions, retention, data that stays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, SSLError

from gpuferry import keys
from gpuferry.errors import StepFailed
from gpuferry.nodes.local import bucket, network, object_store, survey
from gpuferry.nodes.local.docker import docker
from gpuferry.paths import local_dir


class Store:
    """One S3 server on a network of its own."""

    def __init__(self, folder: Path) -> None:
        self.stack = f"t{os.getpid()}-77"
        self.folder = folder
        facts = network.create(self.stack)
        self.admin = keys.access_key()
        self.args = object_store.ObjectStoreArgs(
            stack=self.stack,
            subnet4=facts["subnet4"],
            subnet6=facts["subnet6"],
            **keys.certificate_authority(self.stack),
            **self.admin,
        )
        self.ca = folder / "ca.pem"
        self.ca.write_text(self.args.ca_pem)
        object_store.create(self.args, lambda text: None)

    def declare(self, name: str, retention_days: int = 0) -> bucket.BucketArgs:
        """Make a bucket."""
        args = bucket.BucketArgs(
            name=name,
            versioning=True,
            retention_days=retention_days,
            endpoint=self.args.endpoint,
            ca_pem=self.args.ca_pem,
            admin_access_key=self.admin["access_key"],
            admin_secret_key=self.admin["secret_key"],
            **keys.access_key(),
        )
        bucket.create(args)
        return args

    def client(self, args: bucket.BucketArgs, verify: str | bool = True) -> Any:
        """A client with the bucket's own keys; `verify` as in boto3."""
        return boto3.client(
            "s3",
            endpoint_url=self.args.endpoint,
            region_name=object_store.REGION,
            verify=str(self.ca) if verify is True else verify,
            aws_access_key_id=args.access_key,
            aws_secret_access_key=args.secret_key,
        )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    made = Store(tmp_path_factory.mktemp("store"))
    try:
        yield made
    finally:
        survey.sweep(made.stack)


def test_creating_it_again_changes_nothing(store: Store) -> None:
    before = docker("inspect", "--format", "{{.Id}}", object_store.container_name(store.stack))
    object_store.create(store.args, lambda text: None)
    name = object_store.container_name(store.stack)
    assert docker("inspect", "--format", "{{.Id}}", name) == before


def test_its_certificate_is_not_trusted_without_the_stacks_authority(store: Store) -> None:
    client = store.client(store.declare("tls"), verify="/etc/ssl/certs/ca-certificates.crt")
    with pytest.raises(SSLError):
        client.list_objects_v2(Bucket="tls")


def test_a_buckets_user_has_that_bucket_and_no_other(store: Store) -> None:
    one, two = store.declare("one"), store.declare("two")
    store.client(one).put_object(Bucket="one", Key="x", Body=b"1")
    with pytest.raises(ClientError, match="AccessDenied"):
        store.client(two).get_object(Bucket="one", Key="x")
    with pytest.raises(ClientError, match="AccessDenied"):
        store.client(two).create_bucket(Bucket="three")


def test_old_versions_are_kept(store: Store) -> None:
    client = store.client(store.declare("versions"))
    for body in (b"1", b"2"):
        client.put_object(Bucket="versions", Key="x", Body=body)
    assert len(client.list_object_versions(Bucket="versions")["Versions"]) == 2


def test_data_survives_a_stop_and_a_new_server(store: Store) -> None:
    client = store.client(store.declare("kept"))
    client.put_object(Bucket="kept", Key="x", Body=b"precious")
    name = object_store.container_name(store.stack)
    docker("rm", "-f", name)
    object_store.create(store.args, lambda text: None)
    assert client.get_object(Bucket="kept", Key="x")["Body"].read() == b"precious"


def test_objects_under_retention_go_only_with_a_word(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = store.declare("held", retention_days=1)
    store.client(args).put_object(Bucket="held", Key="x", Body=b"1")
    with pytest.raises(StepFailed, match="--discard-retained-objects"):
        bucket.delete(args)
    monkeypatch.setenv(bucket.DISCARD_RETAINED, "1")
    bucket.delete(args)
    bucket.delete(args)  # gone already: nothing to do


def test_no_secret_shows_in_the_containers_description(store: Store) -> None:
    shown = docker("inspect", object_store.container_name(store.stack))
    assert store.admin["secret_key"] not in shown


def test_it_keeps_objects_in_clear_even_where_it_takes_a_request_for_encryption(
    store: Store,
) -> None:
    """Why the spec refuses `server_side_encryption` here, and the check asks for the answer."""
    client = store.client(store.declare("clear"))
    with pytest.raises(ClientError, match="NotImplemented"):
        client.get_bucket_encryption(Bucket="clear")
    key = os.urandom(32)
    wishes: list[dict[str, Any]] = [
        {"ServerSideEncryption": "AES256"},
        {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": key},
    ]
    for number, wish in enumerate(wishes):
        client.put_object(Bucket="clear", Key=str(number), Body=b"canary-77d1", **wish)
        assert "ServerSideEncryption" not in client.head_object(Bucket="clear", Key=str(number))
        raw = local_dir(store.stack) / "objects/objects/clear" / str(number)
        assert raw.read_bytes() == b"canary-77d1"


def test_it_refuses_lifecycle_rules(store: Store) -> None:
    """Why old logs are removed by `ferry logs --prune`."""
    client = store.client(store.declare("ages"))
    rule = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "x/"}, "Expiration": {"Days": 1}}
    with pytest.raises(ClientError, match="NotImplemented"):
        client.put_bucket_lifecycle_configuration(
            Bucket="ages", LifecycleConfiguration={"Rules": [rule]}
        )
