"""What a stack declares about secrets and about data at rest."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, SecretStr, model_validator

from gpuferry.spec.fields import DiskPath, ServerName, VolumePath
from gpuferry.spec.strict import Strict


class SecretSpec(Strict):
    """A secret that jobs on servers read as a file in memory; written by `ferry secret`."""

    value: SecretStr = Field(description="encrypted (`secure:`); in clear it is refused")
    servers: list[ServerName] = Field(
        default_factory=list, description="which get it; empty: all of the stack"
    )
    uid: int = Field(
        default=0, ge=0, le=4294967294, description="who owns the file: the job's user; 0: root"
    )
    changed: str = Field(default="", description="when the value was last set")

    def is_for(self, server: str) -> bool:
        """Whether a server gets it."""
        return not self.servers or server in self.servers


class EncryptedVolume(Strict):
    """A place on a server whose data is encrypted at rest."""

    name: Annotated[ServerName, Field(max_length=24)] = Field(description="of the volume")
    path: VolumePath = Field(description="where it is mounted, such as /vault")
    device: DiskPath = Field(
        default="",
        description="an empty disk for LUKS2, such as /dev/disk/by-id/virtio-extra-1; left out: "
        "encrypted files in /data (gocryptfs)",
    )
    scratch: bool = Field(
        default=False, description="throw-away: empty after each boot, its key is kept nowhere"
    )

    @model_validator(mode="after")
    def _scratch_has_a_disk(self) -> Self:
        if self.scratch and not self.device:
            raise ValueError("scratch needs a device: a disk that may be blank after a stop")
        return self
