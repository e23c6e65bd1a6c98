"""The one interface that every provider has; components call nothing else."""

from __future__ import annotations

from typing import Any, Protocol

import pulumi

from gpuferry.spec import Spec
from gpuferry.spec.model import FirewallSpec, ServerSpec
from gpuferry.spec.storage import ObjectStoreSpec

Outputs = pulumi.Output[dict[str, Any]]


class Provider(Protocol):
    """Creates machines, buckets and network rules; knows nothing about what runs on them."""

    def __init__(self, stack: str, spec: Spec, keys: Outputs) -> None:
        """`keys` are the stack's own: deploy key, certificate authority, store administrator."""

    def network(self, firewall: FirewallSpec, opts: pulumi.ResourceOptions) -> Outputs:
        """Make the private network and the provider's own rules.

        Returns `management_networks` (networks this machine reaches the servers from) and
        whatever else the provider's machines need.
        """

    def machine(
        self, server: ServerSpec, network: Outputs, opts: pulumi.ResourceOptions
    ) -> Outputs:
        """Make one server; the host key is known before its first boot.

        Returns the fields of `gpuferry.nodes.server.Server` except `name` and `private_key`.
        """

    def private_key(self, server: ServerSpec) -> dict[str, pulumi.Input[str]]:
        """How to log in: either `private_key`, or `key_file`, a path on this machine."""

    def bucket(
        self, store: ObjectStoreSpec, network: Outputs, opts: pulumi.ResourceOptions
    ) -> Outputs:
        """Make one bucket; returns endpoint, bucket, region, access_key, secret_key, ca_pem."""
