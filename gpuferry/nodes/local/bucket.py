"""Buckets of the local S3 server, each with a key pair of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import urllib3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.client import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from pydantic import BaseModel, ConfigDict

from gpuferry.errors import StepFailed
from gpuferry.nodes.local.object_store import REGION
from gpuferry.s3_errors import refusals
from gpuferry.spec.storage import CANNED_ACL

CHECK_PREFIX = ".gpuferry-check/"
DISCARD_RETAINED = "GPUFERRY_DISCARD_RETAINED"


class BucketArgs(BaseModel):
    """One bucket and the administrator who makes it."""

    model_config = ConfigDict(extra="forbid")

    name: str
    versioning: bool
    retention_days: int
    endpoint: str
    ca_pem: str
    admin_access_key: str
    admin_secret_key: str
    access_key: str
    secret_key: str


def create(args: BucketArgs) -> dict[str, Any]:
    """Make the bucket as declared and hand it to its own user; existing data stays."""
    with _client(args) as s3, refusals(args.name):
        if not _exists(s3, args.name):
            lock = bool(args.retention_days)
            s3.create_bucket(Bucket=args.name, ACL=CANNED_ACL, ObjectLockEnabledForBucket=lock)
        if not args.retention_days:
            status = "Enabled" if args.versioning else "Suspended"
            s3.put_bucket_versioning(Bucket=args.name, VersioningConfiguration={"Status": status})
        else:
            s3.put_object_lock_configuration(
                Bucket=args.name, ObjectLockConfiguration=_lock(args.retention_days)
            )
    _admin(args, "create-user", body=_account(args), fine=(409,))
    _admin(args, f"change-bucket-owner/?bucket={args.name}&owner={args.access_key}")
    return {"bucket": args.name, "endpoint": args.endpoint}


def _exists(s3: Any, bucket: str) -> bool:
    try:
        s3.head_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] in ("404", "NoSuchBucket"):
            return False
        raise
    return True


def _lock(days: int) -> dict[str, Any]:
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": days}}
    return {"ObjectLockEnabled": "Enabled", "Rule": rule}


def _account(args: BucketArgs) -> bytes:
    return (
        f"<Account><Access>{args.access_key}</Access><Secret>{args.secret_key}</Secret>"
        "<Role>user</Role></Account>"
    ).encode()


@contextmanager
def _client(args: BucketArgs) -> Iterator[Any]:
    """A boto3 S3 client that trusts the stack's CA and nothing else."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as ca:
        ca.write(args.ca_pem)
        ca.flush()
        yield boto3.client(
            "s3",
            endpoint_url=args.endpoint,
            region_name=REGION,
            verify=ca.name,
            aws_access_key_id=args.admin_access_key,
            aws_secret_access_key=args.admin_secret_key,
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 3}),
        )


def _admin(args: BucketArgs, path: str, body: bytes = b"", fine: tuple[int, ...] = ()) -> None:
    request = AWSRequest(method="PATCH", url=f"{args.endpoint}/{path}", data=body)
    signer = Credentials(args.admin_access_key, args.admin_secret_key)
    S3SigV4Auth(signer, "s3", REGION).add_auth(request)
    with urllib3.PoolManager(ca_cert_data=args.ca_pem, retries=2) as pool:
        answer = pool.request("PATCH", str(request.url), body=body, headers=dict(request.headers))
    if answer.status >= 300 and answer.status not in fine:
        raise StepFailed(
            f"The object store refused {path.split('?')[0]} for bucket {args.name} "
            f"(HTTP {answer.status})."
        )


def delete(args: BucketArgs) -> None:
    """Remove the bucket and everything in it.

    Raises:
        StepFailed: objects are still under retention, and nobody said to discard those.
    """
    discard = bool(os.environ.get(DISCARD_RETAINED))
    with _client(args) as s3, refusals(args.name):
        try:
            for page in s3.get_paginator("list_object_versions").paginate(Bucket=args.name):
                for entry in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
                    # What the checks wrote is nobody's data.
                    bypass = discard or entry["Key"].startswith(CHECK_PREFIX)
                    s3.delete_object(
                        Bucket=args.name,
                        Key=entry["Key"],
                        VersionId=entry["VersionId"],
                        BypassGovernanceRetention=bypass,
                    )
            s3.delete_bucket(Bucket=args.name)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "NoSuchBucket":
                return
            raise StepFailed(
                f"Bucket {args.name} cannot be removed ({code}). Objects under retention stay "
                "until it ends; to lose them, repeat with --discard-retained-objects"
            ) from None
