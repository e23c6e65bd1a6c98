"""Which certificate authorities the servers of a stack trust."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi

from gpuferry.errors import SpecError
from gpuferry.nodes.local import host
from gpuferry.spec import Spec


def trusted_certificates(
    spec: Spec, keys: pulumi.Output[dict[str, Any]]
) -> pulumi.Output[dict[str, str]]:
    """The stack's own authority, the declared files and, if inherited, this machine's extras."""
    known = host.extra_ca_certificates() if _inherits(spec) else {}
    for index, name in enumerate(spec.mirrors.extra_ca_files):
        try:
            known[f"{Path(name).stem}.crt"] = Path(name).expanduser().read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(
                f"gpuferry:mirrors.extra_ca_files[{index}]: {name} cannot be read ({error})."
            ) from None
    if not spec.object_stores:
        return pulumi.Output.from_input(known)
    own = pulumi.Output.unsecret(keys["ca_pem"])
    return own.apply(lambda pem: {**known, "gpuferry-stack.crt": pem})


def _inherits(spec: Spec) -> bool:
    # A rented server has its own network; this machine's authorities mean nothing there.
    return spec.mirrors.inherit and spec.provider == "local"
