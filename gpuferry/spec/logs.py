"""What a stack declares about logs that survive their server."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr

from gpuferry.spec.fields import BucketName, HomePath
from gpuferry.spec.storage import ObjectStoreSpec
from gpuferry.spec.strict import Strict

# As systemd.unit(5) has it, with a suffix or a pattern for journalctl.
UnitName = Annotated[str, Field(pattern=r"^[A-Za-z0-9:_.@\\*?-]{1,255}$")]


class ExternalStore(Strict):
    """A bucket that the stack does not make: any S3 store with TLS."""

    endpoint: str = Field(
        pattern=r"^https://[^\s/]+$", description="such as https://s3.example.com"
    )
    bucket: BucketName
    region: str = Field(default="us-east-1", pattern=r"^[a-z0-9-]+$")
    access_key: str = Field(min_length=1)
    secret_key: SecretStr = Field(description="encrypted (`secure:`)")
    ca_file: HomePath | None = Field(
        default=None, description="PEM on this machine; left out: the system's authorities"
    )


class LogsSpec(Strict):
    """Journal, container logs and daily accounts, kept in an object store. Left out: nowhere."""

    bucket: BucketName | None = Field(
        default=None, description="one of object_stores; may be left out where there is one"
    )
    store: ExternalStore | None = Field(
        default=None, description="instead of a bucket of the stack"
    )
    encryption: bool = Field(
        default=False, description="sealed on the server (age) for a key that only the stack has"
    )
    units: list[UnitName] = Field(
        default_factory=list, description="of the journal only these; empty: everything"
    )
    delay_seconds: float = Field(
        default=10, ge=1, le=600, description="what a lost machine may take along"
    )
    spool_mib: int = Field(
        default=1024, ge=16, le=1048576, description="kept on the server while the store is away"
    )
    retention_days: int = Field(
        default=0, ge=0, le=36500, description="`ferry logs --prune` removes older ones; 0: never"
    )


def check(logs: LogsSpec | None, stores: list[ObjectStoreSpec]) -> None:
    """Refuse logs without one clear place to go to.

    Raises:
        ValueError: names the key, and what could stand there.
    """
    if logs is None:
        return
    names = ", ".join(store.name for store in stores) or "none"
    if logs.store is not None:
        if logs.bucket is not None:
            raise ValueError("logs: give bucket or store, not both")
        return
    if logs.bucket is None and len(stores) != 1:
        raise ValueError(
            f"logs.bucket: name one of object_stores ({names}), or give logs.store, a bucket that "
            "the stack does not make"
        )
    if logs.bucket is not None and logs.bucket not in [store.name for store in stores]:
        raise ValueError(
            f"logs.bucket: there is no object store {logs.bucket!r}; declared: {names}"
        )
    locked = next((s.retention_days for s in stores if s.name == bucket_of(logs, stores)), 0)
    if logs.retention_days and logs.retention_days < locked:
        raise ValueError(
            f"logs.retention_days: {logs.retention_days}, but the bucket forbids to delete objects "
            f"for {locked} days; accepted: 0, or at least {locked}"
        )


def bucket_of(logs: LogsSpec, stores: list[ObjectStoreSpec]) -> str:
    """Name of the stack's bucket that logs go to; empty with a store of its own."""
    if logs.store is not None:
        return ""
    return logs.bucket or stores[0].name
