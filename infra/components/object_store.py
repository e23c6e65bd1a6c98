"""One bucket with a key pair of its own."""

from __future__ import annotations

from typing import Any

import pulumi

from gpuferry.spec.storage import CANNED_ACL, ObjectStoreSpec
from infra.components.firewall import Firewall
from infra.providers.base import Provider
from infra.step import Step, secret


class ObjectStore(pulumi.ComponentResource):
    """A bucket, reached over TLS from the stack's servers."""

    name: str
    """As declared."""
    access: pulumi.Output[dict[str, Any]]
    """Endpoint, bucket, region, CA and the key pair; secret as a whole."""
    endpoint: pulumi.Output[str]
    """Where the S3 API answers; no secret."""

    data_key: pulumi.Output[str]
    """What sealed data in the bucket is encrypted with; secret."""

    def __init__(
        self,
        name: str,
        spec: ObjectStoreSpec,
        provider: Provider,
        firewall: Firewall,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpuferry:index:ObjectStore", name, {"acl": CANNED_ACL}, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.name = name
        self.access = secret(provider.bucket(spec, firewall.network, child))
        self.endpoint = pulumi.Output.unsecret(self.access["endpoint"])
        self.data_key = Step(f"{name}-data-key", "data-key", {}, keeps=True, opts=child).secret[
            "key"
        ]
        self.register_outputs({"endpoint": self.endpoint, "bucket": spec.name})
