"""What a deployed stack knows about its servers: how to reach, converge and check each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gpuferry.errors import PrerequisiteMissing
from gpuferry.nodes.server import Server


class Entry(BaseModel):
    """One server with all that later commands need; holds secrets."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    server: Server
    ssh_wait_seconds: int
    variables: dict[str, Any]
    expectations: dict[str, Any]
    declared: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    workload: str = ""


def parse(raw: dict[str, Any]) -> Entry:
    """Turn one element of the stack's `inventory` output into an entry.

    Raises:
        PrerequisiteMissing: the private key file that the spec names cannot be read.
    """
    fields = dict(raw["server"])
    key_file = fields.pop("key_file", None)
    if key_file is not None:
        try:
            fields["private_key"] = Path(key_file).expanduser().read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise PrerequisiteMissing(
                f"{fields['name']}: the private key {key_file} cannot be read "
                f"({getattr(error, 'strerror', error)}). Correct servers[].ssh.key_file."
            ) from None
    return Entry.model_validate({**raw, "server": fields})
