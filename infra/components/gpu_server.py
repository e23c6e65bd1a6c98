"""One server: made, converged, verified, in this order."""

from __future__ import annotations

import json
from typing import Any

import pulumi

from gpuferry import desired, monitoring
from gpuferry.content import checks_digest, roles_digest
from gpuferry.desired import StackFacts
from gpuferry.exposure import provider_rules
from gpuferry.spec import Spec
from gpuferry.spec.model import ServerSpec
from infra.components.firewall import Firewall
from infra.components.object_store import ObjectStore
from infra.providers.base import Provider
from infra.step import Record, Step, secret


class GpuServer(pulumi.ComponentResource):
    """A server that is what the spec says, or the deployment fails and names the check.

    Made first, and converged (`converge`) once all servers of the stack are there.
    """

    name: str
    """As declared."""
    machine: pulumi.Output[dict[str, Any]]
    """Address, port, user, host key and the provider's facts; no secret."""
    inventory: pulumi.Output[dict[str, Any]]
    """All that later commands need to reach, converge and check the server; secret."""
    volume_keys: dict[str, pulumi.Output[str]]
    """What opens the encrypted volumes, by their names; secret."""
    exposure: pulumi.Output[list[dict[str, Any]]]
    """Who may reach what, as the rules of a provider's firewall in front of the server."""
    verdicts: pulumi.Output[list[dict[str, Any]]]
    """What the last verification found."""
    converged: pulumi.Output[dict[str, Any]]
    """What converging did."""

    def __init__(
        self,
        name: str,
        spec: Spec,
        server: ServerSpec,
        provider: Provider,
        firewall: Firewall,
        stores: list[ObjectStore],
        certificates: pulumi.Output[dict[str, str]],
        log_recipient: pulumi.Output[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpuferry:index:GpuServer", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.name = name
        self._spec, self._server, self._child = spec, server, child
        self._network = firewall.network["management_networks"]
        self._parts = {
            "key": provider.private_key(server),
            "networks": self._network,
            "certificates": certificates,
            "stores": [store.access for store in stores],
            "log_recipient": log_recipient,
        }
        self.machine = provider.machine(server, firewall.network, child)
        self.volume_keys = {
            volume.name: Step(
                f"{name}-{volume.name}-volume-key", "volume-key", {}, keeps=True, opts=child
            ).secret["key"]
            for volume in server.encrypted_volumes
            if not volume.scratch
        }

    def converge(self, servers: dict[str, GpuServer], token: pulumi.Input[str]) -> None:
        """Bring the server to its declared state, and verify it.

        `servers` are all of the stack: one that watches others must know where they are, and is
        verified after them. `token` is the one that agents are asked with, empty where none is.
        """
        spec, server, child, name = self._spec, self._server, self._child, self.name
        others = [servers[peer] for peer in monitoring.peers(spec, server)]
        known_at: dict[str, pulumi.Input[str]] = {
            s.name: s.machine["private_address"] for s in ([self, *others] if others else [])
        }
        addresses = pulumi.Output.from_input(known_at)
        self.exposure = pulumi.Output.all(self._network, addresses).apply(
            lambda known: provider_rules(desired.exposure_table(spec, server, known[0], known[1]))
        )
        inventory = secret(
            pulumi.Output.all(
                **self._parts,
                machine=self.machine,
                volume_keys=self.volume_keys,
                addresses=addresses,
                token=token,
            ).apply(lambda known: _inventory(spec, server, **known))
        )
        # A resource of its own, so that a server can be reached when converging it fails.
        self.inventory = Record(f"{name}-inventory", inventory, opts=child).secret
        self.converged = Step(
            f"{name}-converge",
            "converge",
            {"inventory": self.inventory, "content": roles_digest()},
            remembers=True,
            opts=child,
        ).public
        watched = [s for s in others if name == monitoring.own_server(spec)]
        verify = Step(
            f"{name}-verify",
            "verify",
            {
                "inventory": self.inventory,
                "content": checks_digest(),
                "converged": self.converged,
                **({"watched": [s.converged for s in watched]} if watched else {}),
            },
            opts=child,
        )
        self.verdicts = verify.public["verdicts"]
        self.register_outputs({"machine": self.machine, "verdicts": self.verdicts})


def _inventory(
    spec: Spec,
    server: ServerSpec,
    *,
    machine: dict[str, Any],
    key: dict[str, str],
    networks: list[str],
    certificates: dict[str, str],
    stores: list[dict[str, str]],
    volume_keys: dict[str, str],
    log_recipient: str,
    addresses: dict[str, str],
    token: str,
) -> dict[str, Any]:
    facts = StackFacts(
        management_networks=networks,
        ca_certificates=certificates,
        object_stores=stores,
        volume_keys=volume_keys,
        log_recipient=log_recipient,
        addresses=addresses,
        scrape_token=token,
    )
    inventory = {
        "server": {"name": server.name, **machine, **key},
        "declared": desired.declared_digest(spec, server),
        "labels": server.labels,
        "workload": server.workload,
        "ssh_wait_seconds": spec.ssh_wait_seconds,
        "variables": desired.role_variables(spec, server, facts),
        "expectations": desired.expectations(
            spec, server, machine["user"], machine["provider_facts"]["kind"], facts
        ),
    }
    # The engine takes only what JSON can hold, so a mapping by GPU index gets its keys as text.
    return dict(json.loads(json.dumps(inventory)))
