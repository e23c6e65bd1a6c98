"""The ssh provider: servers you already rent. Nothing is created and nothing is deleted."""

from __future__ import annotations

import pulumi

from gpuferry.spec import Spec
from gpuferry.spec.model import FirewallSpec, ServerSpec
from gpuferry.spec.storage import ObjectStoreSpec
from infra.providers.base import Outputs
from infra.step import Step


class SshProvider:
    """Adopts servers by address, user, key and host key, all of which the spec gives."""

    def __init__(self, stack: str, spec: Spec, keys: Outputs) -> None:
        self._spec = spec

    def network(self, firewall: FirewallSpec, opts: pulumi.ResourceOptions) -> Outputs:
        """The provider's network is not ours to change; the firewall is the host's own."""
        return pulumi.Output.from_input({"management_networks": []})

    def machine(
        self, server: ServerSpec, network: Outputs, opts: pulumi.ResourceOptions
    ) -> Outputs:
        """Log in once with the given key, and learn what the server is."""
        if server.ssh is None:
            raise ValueError(f"{server.name}: provider ssh without an ssh entry")  # spec forbids it
        step = Step(
            f"{server.name}-machine",
            "rented",
            {
                "name": server.name,
                "address": server.ssh.address,
                "port": server.ssh.port,
                "user": server.ssh.user,
                "host_key": server.ssh.host_key,
                "ssh_wait_seconds": self._spec.ssh_wait_seconds,
                **self.private_key(server),
            },
            triggers=[server.ssh.host_key],
            opts=opts,
        )
        return step.public

    def private_key(self, server: ServerSpec) -> dict[str, pulumi.Input[str]]:
        """The user's own key: a file on this machine, or a secret of the stack."""
        if server.ssh and server.ssh.private_key:
            return {"private_key": pulumi.Output.secret(server.ssh.private_key.get_secret_value())}
        return {"key_file": (server.ssh.key_file or "") if server.ssh else ""}

    def bucket(
        self, store: ObjectStoreSpec, network: Outputs, opts: pulumi.ResourceOptions
    ) -> Outputs:
        """Rented servers come without an object store; the spec refuses one."""
        raise ValueError("provider ssh has no object store")
