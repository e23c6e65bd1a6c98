"""Who may reach what: the provider's rules here, the same table on each host by its role."""

from __future__ import annotations

from typing import Any

import pulumi

from gpuferry.spec.model import FirewallSpec
from infra.providers.base import Provider


class Firewall(pulumi.ComponentResource):
    """The stack's private network and the rules in front of it."""

    network: pulumi.Output[dict[str, Any]]
    """What the provider's machines need to know about the network."""

    def __init__(
        self,
        name: str,
        spec: FirewallSpec,
        provider: Provider,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpuferry:index:Firewall", name, None, opts)
        self.network = provider.network(spec, pulumi.ResourceOptions(parent=self))
        self.register_outputs({"management_networks": self.network["management_networks"]})
