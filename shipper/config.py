"""The shipper's configuration: one JSON file, and the store's credentials in another."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any


class ConfigError(Exception):
    """It cannot be used; the text is one sentence for the user."""


@dataclass(frozen=True)
class Config:
    """What is shipped where."""

    server: str
    endpoint: str
    bucket: str
    region: str = "us-east-1"
    # PEM of the authority that the store's certificate must come from; empty: the system's.
    ca_pem: str = ""
    credentials_file: str = "/etc/gpuferry/logs-credentials.json"
    # age's public key; empty: chunks are not encrypted.
    recipient: str = ""
    # Empty: all.
    units: tuple[str, ...] = ()
    delay_seconds: float = 10.0
    spool_bytes: int = 1 << 30
    state_folder: str = "/var/lib/gpuferry-logs"
    status_file: str = "/run/gpuferry-logs/status.json"
    docker_folder: str = "/var/lib/docker"
    rollup_folder: str = "/var/lib/gpuferry-rollups"
    # How long a stop may go on sending.
    stop_seconds: float = 10.0


def load(path: str) -> Config:
    """Read the file.

    Raises:
        ConfigError: it is missing, no JSON, has an unknown key or a value of another kind.
    """
    try:
        with open(path, encoding="utf-8") as handle:
            data = json.load(handle)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as JSON: {error}. Converge the server.") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} holds no JSON object.")
    return parse(data, path)


def parse(data: dict[str, Any], where: str = "configuration") -> Config:
    """A configuration of plain values.

    Raises:
        ConfigError: an unknown or a missing key, or a value that is not accepted.
    """
    known = {field.name: field for field in fields(Config)}
    for key in data:
        if key not in known:
            raise ConfigError(f"{where}: {key!r} is unknown; accepted: {', '.join(known)}.")
    for key in ("server", "endpoint", "bucket"):
        if not data.get(key):
            raise ConfigError(f"{where}: {key} is required, but missing.")
    for key in ("delay_seconds", "spool_bytes", "stop_seconds"):
        value = data.get(key, 1)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
            raise ConfigError(f"{where}: {key} is {value!r}; accepted: a number above 0.")
    if not str(data["endpoint"]).startswith("https://"):
        raise ConfigError(f"{where}: endpoint is {data['endpoint']!r}; accepted: https://…")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return Config(**values)


def credentials(path: str) -> tuple[str, str]:
    """The store's key pair, read anew each time it is needed: it may be exchanged meanwhile.

    Raises:
        ConfigError: the file cannot be used.
    """
    try:
        with open(path, encoding="utf-8") as handle:
            data = json.load(handle)
        return str(data["access_key"]), str(data["secret_key"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: {type(error).__name__}. Converge the server.") from None
