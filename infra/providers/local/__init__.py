"""The local provider: containers or virtual machines, disks and an S3 server on this machine."""

from __future__ import annotations

import json

import pulumi

from gpuferry import desired
from gpuferry.errors import SpecError
from gpuferry.nodes.local import capacity
from gpuferry.paths import local_dir
from gpuferry.spec import Spec
from gpuferry.spec.model import FirewallSpec, ServerSpec
from gpuferry.spec.storage import ObjectStoreSpec
from infra.providers.base import Outputs
from infra.step import Step


class LocalProvider:
    """Servers as containers or virtual machines, an S3 server, one private network per stack."""

    def __init__(self, stack: str, spec: Spec, keys: Outputs) -> None:
        self._stack = stack
        self._spec = spec
        self._keys = keys
        self._store: Step | None = None
        folder = local_dir(stack)
        refusal = capacity.refusal(
            spec.servers, capacity.measure(folder), capacity.existing_disks_gib(folder)
        )
        if refusal:
            raise SpecError(refusal)

    def network(self, firewall: FirewallSpec, opts: pulumi.ResourceOptions) -> Outputs:
        """A Docker network; only this machine and the stack's own servers are on it."""
        step = Step("network", "network", {"stack": self._stack}, deletes=True, opts=opts)
        return step.public.apply(
            lambda facts: {
                **facts,
                "management_networks": [facts["subnet4"], facts["subnet6"]],
            }
        )

    def machine(
        self, server: ServerSpec, network: Outputs, opts: pulumi.ResourceOptions
    ) -> Outputs:
        """A container or a virtual machine; its disks and host key are resources of their own."""
        virtual = server.kind == "vm"
        host_key = Step(f"{server.name}-host-key", "host-key", {}, keeps=True, opts=opts).secret
        disk = Step(
            f"{server.name}-disk",
            "disk",
            {
                "stack": self._stack,
                "server": server.name,
                "size_gib": server.data_disk_gib,
                **({"extra_disks_gib": server.extra_disks_gib} if virtual else {}),
            },
            deletes=True,
            opts=opts,
        )
        host_public_key = pulumi.Output.unsecret(host_key["public"])
        machine = Step(
            f"{server.name}-machine",
            "machine",
            {
                "stack": self._stack,
                "name": server.name,
                "image": server.image,
                "cpus": server.cpus,
                "memory_gib": server.memory_gib,
                "host_number": disk.public["host_number"],
                "subnet4": network["subnet4"],
                "subnet6": network["subnet6"],
                "host_private_key": host_key["private"],
                "host_public_key": host_public_key,
                "authorized_key": pulumi.Output.unsecret(self._keys["deploy"]["public"]),
                **(_virtual(server) if virtual else {}),
                **_gpus(server),
                **self._baked(server),
            },
            deletes=True,
            # A container's triggers are what they were before there were virtual machines.
            triggers=[
                *(["vm"] if virtual else []),
                server.image,
                host_public_key,
                *([json.dumps(_gpus(server))] if server.gpu else []),
            ],
            opts=opts,
        )
        return machine.public

    def _baked(self, server: ServerSpec) -> dict[str, pulumi.Input[object]]:
        virtual = server.kind == "vm"
        known = server.baked and not virtual
        return {"baked_key": desired.baked_key(self._spec, server)} if known else {}

    def private_key(self, server: ServerSpec) -> dict[str, pulumi.Input[str]]:
        """The stack's deploy key."""
        return {"private_key": self._keys["deploy"]["private"]}

    def bucket(
        self, store: ObjectStoreSpec, network: Outputs, opts: pulumi.ResourceOptions
    ) -> Outputs:
        """A bucket on the stack's S3 server, which the first bucket brings with it."""
        ca_pem = pulumi.Output.unsecret(self._keys["ca_pem"])
        admin = self._keys["store"]
        server = self._object_store(network).public
        own = Step(f"{store.name}-access-key", "access-key", {}, keeps=True, opts=opts).secret
        bucket = Step(
            f"{store.name}-bucket",
            "bucket",
            {
                **store.model_dump(exclude={"server_side_encryption"}),
                "endpoint": server["endpoint"],
                "ca_pem": ca_pem,
                "admin_access_key": admin["access_key"],
                "admin_secret_key": admin["secret_key"],
                "access_key": own["access_key"],
                "secret_key": own["secret_key"],
            },
            deletes=True,
            triggers=[store.name],
            opts=opts,
        )
        return pulumi.Output.all(
            name=store.name,
            endpoint=server["endpoint"],
            region=server["region"],
            bucket=bucket.public["bucket"],
            access_key=own["access_key"],
            secret_key=own["secret_key"],
            ca_pem=ca_pem,
        )

    def _object_store(self, network: Outputs) -> Step:
        if self._store is None:
            self._store = Step(
                "object-store",
                "object-store",
                {
                    "stack": self._stack,
                    "subnet4": network["subnet4"],
                    "subnet6": network["subnet6"],
                    "ca_pem": pulumi.Output.unsecret(self._keys["ca_pem"]),
                    "ca_key": self._keys["ca_key"],
                    "access_key": self._keys["store"]["access_key"],
                    "secret_key": self._keys["store"]["secret_key"],
                },
                deletes=True,
                opts=pulumi.ResourceOptions(),
            )
        return self._store


def _virtual(server: ServerSpec) -> dict[str, pulumi.Input[object]]:
    return {
        "kind": server.kind,
        "secure_boot": server.secure_boot,
        "extra_disks": len(server.extra_disks_gib),
    }


def _gpus(server: ServerSpec) -> dict[str, pulumi.Input[object]]:
    """Simulated GPUs are part of the machine: other ones are another machine."""
    if server.gpu is None:
        return {}
    return {"gpu_model": server.gpu.model, "gpu_count": server.gpu.count}
