"""The agent's configuration: one JSON file, every key optional."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from agent.detect.thresholds import MOST_SECONDS, Thresholds

MOST_SAMPLE_SECONDS = 2.0


class ConfigError(Exception):
    """The configuration cannot be used; the text is one sentence for the user."""


@dataclass(frozen=True)
class Config:
    """What the agent does."""

    listen: str = "127.0.0.1"
    port: int = 9750
    token_file: str = ""
    # Whoever watches several servers has one token for all of them; empty, or no such file: nobody.
    scrape_token_file: str = ""
    # False: the driver is left alone, everything about GPUs is unknown (ray#65808).
    nvml: bool = True
    sample_seconds: float = 1.0
    # None: nobody said; GPUs that were seen before are expected.
    expected_gpus: int | None = None
    state_file: str = "/var/lib/gpuferry-agent/state.json"
    # One file for each day.
    rollup_folder: str = "/var/lib/gpuferry-rollups"
    # The first is the kernel's, the second that of simulated GPUs; what is not there is no fault.
    kernel_logs: tuple[str, ...] = ("/dev/kmsg", "/run/gpusim/kmsg")
    # Jobs write their step number into files here; the age of other files can be declared.
    progress_folder: str = "/run/gpuferry/progress"
    progress_files: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ("/", "/data")
    thresholds: Thresholds = field(default_factory=Thresholds)


def load(path: Path) -> Config:
    """Read the file.

    Raises:
        ConfigError: it is missing, no JSON, has an unknown key or a value that is not accepted.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as JSON: {error}. Converge the server.") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} holds no JSON object.")
    return parse(data, str(path))


def parse(data: dict[str, Any], where: str = "configuration") -> Config:
    """A configuration of plain values.

    Raises:
        ConfigError: an unknown key or a value that is not accepted.
    """
    values = _typed(Config, data, where)
    if isinstance(values.get("thresholds"), dict):
        values["thresholds"] = Thresholds(
            **_typed(Thresholds, values["thresholds"], f"{where}: thresholds")
        )
    config = Config(**values)
    for name, seconds in vars(config.thresholds).items():
        if name.endswith("_seconds") and seconds > MOST_SECONDS:
            raise ConfigError(
                f"{where}: thresholds: {name} is {seconds:g}; accepted: 0 to {MOST_SECONDS:g}."
            )
    refuse_public(config.listen, where)
    if not 0 < config.port < 65536:
        raise ConfigError(f"{where}: port is {config.port}; accepted: 1 to 65535.")
    # nvitop-exporter's limit: below, the driver's own counters do not change any more. Above, other
    # readings are stale before they come again: their periods are counted in samples.
    if not 0.25 <= config.sample_seconds <= MOST_SAMPLE_SECONDS:
        raise ConfigError(
            f"{where}: sample_seconds is {config.sample_seconds}; accepted: 0.25 to "
            f"{MOST_SAMPLE_SECONDS:g}."
        )
    return config


def _typed(kind: type[Any], data: dict[str, Any], where: str) -> dict[str, Any]:
    """Values of the fields of a dataclass; lists become tuples."""
    known = {f.name: getattr(kind(), f.name) for f in fields(kind)}
    for key, value in data.items():
        if key not in known:
            raise ConfigError(f"{where}: {key!r} is unknown; accepted: {', '.join(known)}.")
        if not _accepts(key, known[key], value):
            raise ConfigError(
                f"{where}: {key} cannot be {value!r}; the default is {known[key]!r}, and it takes "
                "values of that kind."
            )
    return {key: tuple(v) if isinstance(v, list) else v for key, v in data.items()}


def _accepts(key: str, default: Any, value: Any) -> bool:
    """Whether a value is of the kind of the default."""
    if key == "expected_gpus":
        return value is None or (type(value) is int and value >= 0)
    if isinstance(default, tuple):
        return isinstance(value, list) and all(isinstance(v, str) for v in value)
    if isinstance(default, float):
        return type(value) in (int, float) and value >= 0
    if isinstance(default, Thresholds):
        return isinstance(value, dict)
    return type(value) is type(default)


def refuse_public(listen: str, where: str) -> None:
    """Loopback and private addresses only: readings tell outsiders what a team is doing.

    Raises:
        ConfigError: it is another address, or none.
    """
    try:
        address = ipaddress.ip_address(listen)
    except ValueError:
        address = None
    if address is None or address.is_unspecified or not address.is_private:
        raise ConfigError(
            f"{where}: listen is {listen!r}; accepted: 127.0.0.1, ::1 or a private address of this "
            "server."
        )
