"""What a stack declares about object storage."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from gpuferry.spec.fields import BucketName
from gpuferry.spec.strict import Strict

# Of every bucket, so that rules can judge it: no key of the stack file makes one public.
CANNED_ACL = "private"


class ObjectStoreSpec(Strict):
    """One bucket."""

    name: BucketName = Field(description="of the bucket; S3's rules")
    versioning: bool = Field(default=True, description="keep old versions of objects")
    retention_days: int = Field(
        default=0, ge=0, le=36500, description="objects cannot be deleted for so long; 0: off"
    )
    server_side_encryption: bool = Field(
        default=False,
        description="the store must encrypt at rest; refused where it cannot (provider local)",
    )

    @model_validator(mode="after")
    def _retention_needs_versions(self) -> Self:
        if self.retention_days and not self.versioning:
            raise ValueError("retention_days needs versioning: true (S3 object lock requires it)")
        return self


def fits_provider(provider: str, stores: list[ObjectStoreSpec]) -> None:
    """Refuse what the provider's object store cannot do.

    Raises:
        ValueError: names the key and the way out.
    """
    if provider == "ssh" and stores:
        raise ValueError(
            "object_stores: the provider ssh has no object store; remove the entry, or use a "
            "provider that has one (local)"
        )
    for index, store in enumerate(stores):
        if provider == "local" and store.server_side_encryption:
            raise ValueError(
                f"object_stores[{index}].server_side_encryption: the local S3 server keeps objects "
                "in clear even where it takes a request for encryption; leave it out, and encrypt "
                "before the upload: ./ferry data push --help"
            )
