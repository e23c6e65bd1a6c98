"""Where logs go, and the key that opens them."""

from __future__ import annotations

from typing import Any

import pulumi

from gpuferry.logs.place import IDENTITY, place
from gpuferry.spec import Spec
from infra.components.object_store import ObjectStore
from infra.step import Step, secret


class Logs(pulumi.ComponentResource):
    """The bucket for logs and, with encryption, a key pair of which servers get the public part."""

    recipient: pulumi.Output[str]
    """What servers encrypt for; empty: they do not."""
    access: pulumi.Output[dict[str, Any] | None]
    """The bucket with its keys, and `identity`, what opens the logs; secret."""

    def __init__(
        self,
        name: str,
        spec: Spec,
        stores: list[ObjectStore],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpuferry:index:Logs", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        sealed = spec.logs is not None and spec.logs.encryption
        pair: pulumi.Output[dict[str, str]] = pulumi.Output.from_input(
            {"identity": "", "recipient": ""}
        )
        if sealed:
            pair = Step(IDENTITY, "log-key", {}, keeps=True, opts=child).secret
        self.recipient = pulumi.Output.unsecret(pair["recipient"])
        self.access = secret(
            pulumi.Output.all(stores=[store.access for store in stores], pair=pair).apply(
                lambda known: _access(spec, **known)
            )
        )
        self.register_outputs({"recipient": self.recipient})


def _access(
    spec: Spec, stores: list[dict[str, str]], pair: dict[str, str]
) -> dict[str, Any] | None:
    found = place(spec, stores)
    return None if found is None else {**found, "identity": pair["identity"]}
