"""What the pack asks of one resource: its properties in, a ruling out; None: not its business.

Properties are those of the resource as the program registered it. The rules themselves are
`gpuferry.rules`, which also judge the stack file; here they have the caps of the pack's own
configuration, which whoever writes the stack file cannot change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuferry import rules
from gpuferry.rules import Ruling

DECLARATION = "gpuferry:index:Declaration"

Properties = Mapping[str, Any]
Rule = Callable[["Resource", Properties], Ruling | None]


class Resource:
    """One resource that Pulumi is about to make, change or keep."""

    def __init__(self, kind: str, name: str, props: Properties, *, protect: bool = False) -> None:
        """`kind` is Pulumi's type token, such as `command:remote:Command`."""
        self.kind = kind
        self.name = name
        self.props = props
        self.protect = protect

    @property
    def servers(self) -> dict[str, Properties]:
        """What a declaration says of its servers, by name."""
        return dict(self.props.get("servers") or {})


def ssh_not_open_to_the_world(resource: Resource, config: Properties) -> Ruling | None:
    """SSH from everywhere needs the word for it."""
    if resource.kind != DECLARATION:
        return None
    firewall = resource.props["firewall"]
    return rules.ssh_sources(
        "firewall.ssh_from",
        list(firewall["ssh_from"]),
        acknowledged=bool(firewall["ssh_open_to_the_world"]),
    )


def buckets_private(resource: Resource, config: Properties) -> Ruling | None:
    """Any resource with S3's canned ACL, of whatever provider."""
    if "acl" not in resource.props:
        return None
    return rules.bucket_access("acl", {resource.name: str(resource.props["acl"])})


def data_protected(resource: Resource, config: Properties) -> Ruling | None:
    """Pulumi's own option `protect` on whatever holds data."""
    if not config.get("required") or not resource.kind.startswith("command:"):
        return None
    return rules.protection("protect", resource.name, protected=resource.protect)


def gpu_cap(resource: Resource, config: Properties) -> Ruling | None:
    """All GPUs of the stack together."""
    if resource.kind != DECLARATION or "max_gpus" not in config:
        return None
    counts = [int(server.get("gpus") or 0) for server in resource.servers.values()]
    return rules.gpu_count("max_gpus", counts, int(config["max_gpus"]))


def price_cap(resource: Resource, config: Properties) -> Ruling | None:
    """All servers' prices together."""
    if resource.kind != DECLARATION or "max_price_per_hour" not in config:
        return None
    prices = {name: server.get("price_per_hour") for name, server in resource.servers.items()}
    return rules.hourly_price("max_price_per_hour", prices, float(config["max_price_per_hour"]))


def labels_required(resource: Resource, config: Properties) -> Ruling | None:
    """Every server says what the team wants to know of it."""
    if resource.kind != DECLARATION or "labels" not in config:
        return None
    carried = {name: dict(server.get("labels") or {}) for name, server in resource.servers.items()}
    return rules.labels("labels", carried, list(config["labels"]))


def host_key_pinned(resource: Resource, config: Properties) -> Ruling | None:
    """Rented servers, and every connection of the `command` package, jump hosts included."""
    if resource.kind == DECLARATION:
        rented = {n: s["host_key"] for n, s in resource.servers.items() if "host_key" in s}
        return rules.host_keys("servers[].ssh.host_key", rented)
    if not resource.kind.startswith("command:remote:"):
        return None
    connection = resource.props["connection"]
    known = {resource.name: connection.get("hostKey")}
    if proxy := connection.get("proxy"):
        known[f"{resource.name} (proxy)"] = proxy.get("hostKey")
    return rules.host_keys("connection.hostKey", known)


Schema = dict[str, dict[str, Any]]

EVERY_RULE_EVALUATED = "every-rule-evaluated"
# Name, what it says, the rule, and the keys of its configuration (JSON schema).
RULES: tuple[tuple[str, str, Rule, Schema | None], ...] = (
    (
        "ssh-not-open-to-the-world",
        "SSH is not open to the world",
        ssh_not_open_to_the_world,
        None,
    ),
    ("buckets-private", "Only its owner reads a bucket", buckets_private, None),
    (
        "data-protected",
        "What holds data is protected",
        data_protected,
        {"required": {"type": "boolean"}},
    ),
    (
        "gpu-cap",
        "Not more GPUs than the team's cap",
        gpu_cap,
        {"max_gpus": {"type": "integer", "minimum": 0}},
    ),
    (
        "price-cap",
        "Not more an hour than the team's cap",
        price_cap,
        {"max_price_per_hour": {"type": "number", "minimum": 0}},
    ),
    (
        "labels-required",
        "Every server carries the team's labels",
        labels_required,
        {"labels": {"type": "array", "items": {"type": "string"}}},
    ),
    ("host-key-pinned", "Every connection has a host key", host_key_pinned, None),
)


def unknown_names(config: Mapping[str, Any]) -> list[str]:
    """Keys of a pack's configuration that name no rule; `all` is the engine's own word."""
    known = {"all", EVERY_RULE_EVALUATED, *(name for name, *_ in RULES)}
    return [name for name in config if name not in known]
