"""Pulumi's property values as they travel: JSON with marked objects for secrets and assets."""

from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format, struct_pb2  # type: ignore[import-untyped]

Properties = dict[str, Any]

# Signatures from the Pulumi SDKs (`sdk/go/common/resource/sig`): they mark special objects.
SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105
ASSET = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE = "0def7320c3a5731c473e5ecbe6d01bc7"

# Stands for a value that is only known once something else has been created.
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def from_struct(struct: Any) -> Properties:
    """Return the properties in a protobuf struct, secrets still marked."""
    properties: Properties = json_format.MessageToDict(struct)
    return properties


def to_struct(properties: Properties) -> Any:
    """Return the protobuf struct for properties."""
    struct = struct_pb2.Struct()
    struct.update(properties)
    return struct


def is_secret(value: Any) -> bool:
    """Tell whether the value itself (not something in it) is marked secret."""
    return isinstance(value, dict) and value.get(SIGNATURE) == SECRET


def conceal(value: Any) -> Any:
    """Mark a value secret; the engine then encrypts it in the state and hides it in logs."""
    return value if is_secret(value) else {SIGNATURE: SECRET, "value": value}


def reveal(value: Any) -> Any:
    """Return the value without any secret marks, at any depth."""
    if is_secret(value):
        return reveal(value["value"])
    if isinstance(value, dict):
        return {key: reveal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [reveal(item) for item in value]
    return value


def has_unknown(value: Any) -> bool:
    """Tell whether any part of a revealed value is not known yet."""
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return bool(value == UNKNOWN)


def secret_texts(value: Any, within_secret: bool = False) -> Iterator[str]:
    """Yield every string that is secret, or part of something secret."""
    if is_secret(value):
        yield from secret_texts(value["value"], True)
    elif isinstance(value, dict):
        for item in value.values():
            yield from secret_texts(item, within_secret)
    elif isinstance(value, list):
        for item in value:
            yield from secret_texts(item, within_secret)
    elif within_secret and isinstance(value, str):
        yield value
