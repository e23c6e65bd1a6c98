"""What one server is expected to be; the input of its checks."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ExpectedPort(_Strict):
    """One port that may be reached from outside."""

    port: int = Field(ge=1, le=65535)
    protocol: Literal["tcp", "udp"] = "tcp"
    from_: list[str] = Field(default_factory=list, alias="from", description="empty: anywhere")


class ExpectedUser(_Strict):
    """One person's account."""

    name: str
    public_keys: list[str]
    sudo: bool = False


class ExpectedCa(_Strict):
    """A certificate authority that the server must trust."""

    name: str
    pem: str


class ExpectedStore(_Strict):
    """A bucket that the server must be able to use. The keys stay on the controller."""

    name: str
    endpoint: str
    bucket: str
    access_key: str
    secret_key: SecretStr
    ca_pem: str = ""
    region: str = "us-east-1"
    server_side_encryption: bool = Field(default=False, description="the store must encrypt")


class ExpectedDocker(_Strict):
    """Docker settings that must be in effect."""

    live_restore: bool = True
    log_driver: str = Field(default="", description="empty: any that keeps logs bounded")
    log_options: dict[str, str] = Field(
        default_factory=dict, description="options that must be set; others may be"
    )


class ExpectedCuda(_Strict):
    """CUDA versions, such as `12.4`, that the server is declared to have beside the driver."""

    runtime: list[str] = Field(default_factory=list)
    toolkit: list[str] = Field(default_factory=list)


class ExpectedGpu(_Strict):
    """GPUs the server is declared to have."""

    model: str
    count: int
    cuda: ExpectedCuda = Field(default_factory=ExpectedCuda)
    mig: dict[int, list[str]] | None = Field(
        default=None, description="GPU index to MIG profiles; None: not declared"
    )


class ExpectedSsh(_Strict):
    """How sshd must behave."""

    key_exchange: Literal["compatible", "pq_only"] = "compatible"
    port_forwarding: list[str] = Field(default_factory=list, description="accounts that may")


class ExpectedUpdates(_Strict):
    """What updates itself."""

    automatic: bool = True
    reboot_window: str = ""


class ExpectedSecret(_Strict):
    """A secret that must be there; its value is never known here."""

    name: str
    uid: int = 0


class ExpectedVolume(_Strict):
    """A volume that must be mounted and encrypted."""

    name: str
    path: str
    device: str = Field(default="", description="empty: encrypted files, else a disk")
    scratch: bool = False


class ExpectedMonitoring(_Strict):
    """What the server that watches must watch."""

    targets: list[str] = Field(description="servers whose agents it asks")
    unwatched: dict[str, str] = Field(
        default_factory=dict, description="servers it knows nothing of, and why"
    )
    receivers: list[str] = Field(default_factory=list)
    dead_man: bool = False
    alerts: int = Field(ge=1, description="rules that must be loaded")


class Expectations(_Strict):
    """Everything that the checks compare one server with."""

    hostname: str
    user: str
    ssh_port: int = 22
    ssh_from: list[str] = Field(default_factory=list, description="empty: anywhere")
    ssh: ExpectedSsh = Field(default_factory=ExpectedSsh)
    updates: ExpectedUpdates = Field(default_factory=ExpectedUpdates)
    secrets: list[ExpectedSecret] = Field(default_factory=list)
    volumes: list[ExpectedVolume] = Field(default_factory=list)
    open_ports: list[ExpectedPort] = Field(default_factory=list)
    users: list[ExpectedUser] = Field(default_factory=list)
    extra_ca_certificates: list[ExpectedCa] = Field(default_factory=list)
    object_stores: list[ExpectedStore] = Field(default_factory=list)
    roles: list[str] = Field(description="only the checks of these roles run")
    kind: Literal["container", "vm", "server"] = "server"
    timezone: str = "Etc/UTC"
    logs: bool = Field(default=False, description="kept in an object store")
    gpu: ExpectedGpu | None = None
    monitoring: ExpectedMonitoring | None = Field(
        default=None, description="None: it watches nothing"
    )
    docker: ExpectedDocker = Field(default_factory=ExpectedDocker)

    @property
    def concerns(self) -> frozenset[str]:
        """Names of the check files that apply: the roles, and what belongs to no role."""
        return (
            frozenset(self.roles) | {"object_store", "security"} | ({"gpu"} if self.gpu else set())
        )
