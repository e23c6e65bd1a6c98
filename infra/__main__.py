"""The stack: a firewall, its object stores, its servers. It only composes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gpuferry.errors import FerryError  # noqa: E402
from gpuferry.spec import Spec, parse_spec  # noqa: E402
from infra import providers  # noqa: E402
from infra.certificates import trusted_certificates  # noqa: E402
from infra.components import Firewall, GpuServer, ObjectStore  # noqa: E402
from infra.step import Step  # noqa: E402


def main(spec: Spec) -> None:
    """Declare everything."""
    stack = pulumi.get_stack()
    keys = Step(
        "stack-keys", "stack-keys", {"stack": stack}, keeps=True, opts=pulumi.ResourceOptions()
    ).secret
    provider = providers.create(stack, spec, keys)
    firewall = Firewall("firewall", spec.firewall, provider)
    stores = [ObjectStore(s.name, s, provider, firewall) for s in spec.object_stores]
    certificates = trusted_certificates(spec, keys)
    servers = [
        GpuServer(s.name, spec, s, provider, firewall, stores, certificates) for s in spec.servers
    ]
    pulumi.export("servers", {s.name: g.machine for s, g in zip(spec.servers, servers, strict=True)})
    pulumi.export(
        "object_stores",
        {s.name: o.endpoint for s, o in zip(spec.object_stores, stores, strict=True)},
    )
    pulumi.export("verdicts", [g.verdicts for g in servers])
    pulumi.export("inventory", pulumi.Output.secret([g.inventory for g in servers]))


try:
    main(parse_spec(json.loads(os.environ.get("PULUMI_CONFIG", "{}")), source="stack configuration"))
except FerryError as error:
    raise pulumi.RunError(str(error)) from None
