"""The stack: a firewall, its object stores, its servers. It only composes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gpuferry import monitoring
from gpuferry.errors import FerryError
from gpuferry.paths import local_name
from gpuferry.spec import Spec, parse_spec
from infra import providers
from infra.certificates import trusted_certificates
from infra.components import Declaration, Firewall, GpuServer, Logs, ObjectStore
from infra.protection import protect_data
from infra.step import Step


def main(spec: Spec) -> None:
    """Declare everything."""
    if spec.policy.protect_data:
        protect_data()
    Declaration("declared", spec)
    stack = local_name(pulumi.get_project(), pulumi.get_stack())
    keys = Step(
        "stack-keys", "stack-keys", {"stack": stack}, keeps=True, opts=pulumi.ResourceOptions()
    ).secret
    provider = providers.create(stack, spec, keys)
    firewall = Firewall("firewall", spec.firewall, provider)
    stores = [ObjectStore(s.name, s, provider, firewall) for s in spec.object_stores]
    certificates = trusted_certificates(spec, keys)
    logs = Logs("logs", spec, stores) if spec.logs else None
    recipient = logs.recipient if logs else pulumi.Output.from_input("")
    servers = [
        GpuServer(s.name, spec, s, provider, firewall, stores, certificates, recipient)
        for s in spec.servers
    ]
    token = _scrape_token(spec)
    # Who watches others is verified after them.
    for server in sorted(servers, key=lambda s: s.name == monitoring.own_server(spec)):
        server.converge({s.name: s for s in servers}, token)
    pulumi.export("servers", {server.name: server.machine for server in servers})
    pulumi.export("exposure", {server.name: server.exposure for server in servers})
    pulumi.export("object_stores", {store.name: store.endpoint for store in stores})
    volume_keys = {server.name: server.volume_keys for server in servers}
    pulumi.export("volume_keys", pulumi.Output.secret(volume_keys))
    access = {store.name: store.access for store in stores}
    pulumi.export("object_store_access", pulumi.Output.secret(access))
    data_keys = {store.name: store.data_key for store in stores}
    pulumi.export("data_keys", pulumi.Output.secret(data_keys))
    if logs:
        pulumi.export("logs", logs.access)
    pulumi.export("verdicts", [g.verdicts for g in servers])


def _scrape_token(spec: Spec) -> pulumi.Input[str]:
    if not monitoring.watched(spec):
        return ""
    step = Step("scrape-token", "scrape-token", {}, keeps=True, opts=pulumi.ResourceOptions())
    return step.secret["key"]


try:
    config = json.loads(os.environ.get("PULUMI_CONFIG", "{}"))
    main(parse_spec(config, source=f"Pulumi.{pulumi.get_stack()}.yaml"))
except FerryError as error:
    raise pulumi.RunError(str(error)) from None
