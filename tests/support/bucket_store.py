"""A real S3 server with a bucket, on a network of a test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from gpuferry import keys
from gpuferry.nodes.local import bucket, object_store
from gpuferry.nodes.local.docker import docker
from gpuferry.paths import local_dir


class BucketStore:
    """A versitygw on a stack's network, with a bucket."""

    def __init__(self, stack: str, network: Mapping[str, str], name: str) -> None:
        self.stack, admin = stack, keys.access_key()
        self.args = object_store.ObjectStoreArgs(
            stack=stack,
            subnet4=network["subnet4"],
            subnet6=network["subnet6"],
            **keys.certificate_authority(stack),
            **admin,
        )
        object_store.create(self.args, lambda text: None)
        own = keys.access_key()
        self.bucket_args = bucket.BucketArgs(
            name=name,
            versioning=True,
            retention_days=0,
            endpoint=self.args.endpoint,
            ca_pem=self.args.ca_pem,
            admin_access_key=admin["access_key"],
            admin_secret_key=admin["secret_key"],
            **own,
        )
        bucket.create(self.bucket_args)
        self.raw = local_dir(stack) / "objects" / "objects" / name
        self.access: dict[str, Any] = {
            "name": name,
            "endpoint": self.args.endpoint,
            "bucket": name,
            "region": object_store.REGION,
            "ca_pem": self.args.ca_pem,
            "identity": "",
            **own,
        }

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """The store does not answer meanwhile."""
        name = object_store.container_name(self.stack)
        docker("stop", "--time", "1", name)
        try:
            yield
        finally:
            docker("start", name)
            object_store.wait_until_it_listens(self.stack)
