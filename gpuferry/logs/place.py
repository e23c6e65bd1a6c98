"""Where logs go, and the variables of the role that ships them. Pure but for a CA's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuferry.errors import SpecError
from gpuferry.spec.logs import ExternalStore, bucket_of
from gpuferry.spec.model import Spec

# Of the resource with the key pair; no bucket can have its name.
IDENTITY = "stack_logs-data-key"


def place(spec: Spec, stores: list[dict[str, str]]) -> dict[str, str] | None:
    """The bucket for logs with its keys, as `object_store_access` has them.

    None where no logs are declared, or where the stack's stores are not there yet (an image that is
    baked). `stores`: what the provider made.
    """
    if spec.logs is None:
        return None
    if spec.logs.store is not None:
        return _external(spec.logs.store)
    name = bucket_of(spec.logs, spec.object_stores)
    return next((store for store in stores if store["name"] == name), None)


def variables(
    spec: Spec, server: str, stores: list[dict[str, str]], recipient: str
) -> dict[str, Any]:
    """Of the role `log_shipping`; an empty store: nothing is shipped."""
    found = place(spec, stores)
    if spec.logs is None or found is None:
        return {"log_shipping_store": {}, "log_shipping_credentials": {}}
    docker = spec.docker.daemon_options.get("data-root", "/var/lib/docker")
    return {
        "log_shipping_store": {k: found[k] for k in ("endpoint", "bucket", "region", "ca_pem")},
        "log_shipping_credentials": {k: found[k] for k in ("access_key", "secret_key")},
        "log_shipping_server": server,
        "log_shipping_recipient": recipient,
        "log_shipping_units": list(spec.logs.units),
        "log_shipping_delay_seconds": spec.logs.delay_seconds,
        "log_shipping_spool_mib": spec.logs.spool_mib,
        "log_shipping_docker_folder": docker,
    }


def _external(store: ExternalStore) -> dict[str, str]:
    pem = ""
    if store.ca_file is not None:
        try:
            pem = Path(store.ca_file).expanduser().read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise SpecError(
                f"gpuferry:logs.store.ca_file: {store.ca_file} cannot be read "
                f"({type(error).__name__}); name a PEM file of this machine."
            ) from None
    told = store.model_dump(include={"endpoint", "bucket", "region", "access_key"})
    return {
        **told,
        "name": store.bucket,
        "secret_key": store.secret_key.get_secret_value(),
        "ca_pem": pem,
    }
