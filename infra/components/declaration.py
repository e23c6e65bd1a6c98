"""What the stack file declares, as far as rules of a team are about it. Makes nothing."""

from __future__ import annotations

from typing import Any

import pulumi

from gpuferry.spec import Spec


class Declaration(pulumi.ComponentResource):
    """The first resource of a stack: a policy pack can refuse it before anything is made."""

    def __init__(self, name: str, spec: Spec, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpuferry:index:Declaration", name, declared(spec), opts)
        self.register_outputs({})


def declared(spec: Spec) -> dict[str, Any]:
    """Firewall and servers in the stack file's own words; no secret among them."""
    servers: dict[str, dict[str, Any]] = {}
    for server in spec.servers:
        entry: dict[str, Any] = {
            "gpus": server.gpu.count if server.gpu else 0,
            "price_per_hour": server.price_per_hour,
            "labels": server.labels,
        }
        if server.ssh:
            entry["host_key"] = server.ssh.host_key
        servers[server.name] = entry
    return {
        "firewall": {
            "ssh_from": spec.firewall.ssh_from,
            "ssh_open_to_the_world": spec.firewall.ssh_open_to_the_world,
        },
        "servers": servers,
    }
