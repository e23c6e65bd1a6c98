"""What a stack declares. Every key of `Pulumi.<stack>.yaml` under `gpuferry:` is a field here."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, ValidationInfo, model_validator

from gpuferry.spec.fields import (
    Cidr,
    CudaVersion,
    DriverBranch,
    HomePath,
    HostKey,
    MigProfileName,
    PublicKey,
    RebootWindow,
    SecretName,
    ServerName,
    Url,
    UserName,
)
from gpuferry.spec.logs import LogsSpec
from gpuferry.spec.logs import check as check_logs
from gpuferry.spec.monitoring import MonitoringSpec, refuse_misfits
from gpuferry.spec.node_agent import AgentSpec
from gpuferry.spec.policy import PolicySpec, evaluate
from gpuferry.spec.protection import EncryptedVolume, SecretSpec
from gpuferry.spec.storage import ObjectStoreSpec, fits_provider
from gpuferry.spec.strict import Strict as _Strict

ProviderName = Literal["local", "ssh"]


class Port(_Strict):
    """One declared open port; everything that is not declared stays closed."""

    port: int = Field(ge=1, le=65535, description="on the server, or published by a container")
    protocol: Literal["tcp", "udp"] = "tcp"
    from_: list[Cidr] = Field(default_factory=list, alias="from", description="empty: anywhere")


class Gpu(_Strict):
    """GPUs the server is expected to have."""

    model: str = Field(min_length=1, description="a name of the GPU table, such as L4")
    count: int = Field(ge=1, le=16, description="GPUs in the server")
    mig: list[MigProfileName] | dict[int, list[MigProfileName]] | None = Field(
        default=None,
        description="MIG instances of every GPU, such as [3g.40gb, 3g.40gb], or of each by index; "
        "[] switches MIG off, left out leaves it alone",
    )

    @property
    def mig_layout(self) -> dict[int, list[str]] | None:
        """MIG profiles by GPU index: one list stands for every GPU, those not named stay whole."""
        if self.mig is None:
            return None
        if isinstance(self.mig, dict):
            return {index: self.mig.get(index, []) for index in range(self.count)}
        return dict.fromkeys(range(self.count), self.mig)

    @model_validator(mode="after")
    def _indices_exist(self) -> Self:
        for index in self.mig if isinstance(self.mig, dict) else []:
            if not 0 <= index < self.count:
                raise ValueError(
                    f"mig names GPU {index}; with count {self.count} the indices are "
                    f"0 to {self.count - 1}"
                )
        return self


class CudaSpec(_Strict):
    """CUDA versions on the server, side by side; containers bring their own."""

    runtime: list[CudaVersion] = Field(
        default_factory=list, description="libraries, such as ['12.4']"
    )
    toolkit: list[CudaVersion] = Field(default_factory=list, description="with the compiler nvcc")


class DriverSpec(_Strict):
    """The GPU driver. Left out, the server's own facts decide: `ferry plan driver NAME`."""

    source: Literal["auto", "distribution", "nvidia"] = Field(
        default="auto", description="whose packages; auto: the distribution's where they fit"
    )
    branch: DriverBranch | None = Field(
        default=None, description="such as '580', or an exact version such as '580.126.09'"
    )
    flavour: Literal["auto", "open", "proprietary"] = Field(
        default="auto", description="of the kernel modules"
    )
    cuda: CudaSpec = Field(default_factory=CudaSpec)
    allow: list[Literal["kernel_change", "remove_driver", "reboot", "disturb"]] = Field(
        default_factory=list, description="what the plan may do that could hurt; nothing by default"
    )

    @model_validator(mode="after")
    def _versions_once(self) -> Self:
        for kind, versions in (("runtime", self.cuda.runtime), ("toolkit", self.cuda.toolkit)):
            _refuse_duplicates(f"cuda.{kind}", list(versions))
        return self

    @model_validator(mode="after")
    def _branch_runs_cuda(self) -> Self:
        versions = [*self.cuda.runtime, *self.cuda.toolkit]
        if not self.branch or not versions:
            return self  # loading the rules would cost every start
        from gpuferry.driver.cuda_versions import minimum_branch
        from gpuferry.driver.facts import branch_of

        for version in versions:
            least = minimum_branch(version)
            if branch_of(self.branch) < least:
                raise ValueError(
                    f"CUDA {version} needs driver branch {least} or later, and branch is "
                    f"{self.branch}; raise it, leave it out, or name an older CUDA"
                )
        return self


class SshAccess(_Strict):
    """How a server that you already rent is reached (provider `ssh`)."""

    address: str = Field(pattern=r"^[A-Za-z0-9:.-]+$", description="IP address or host name")
    port: int = Field(default=22, ge=1, le=65535)
    user: UserName = Field(description="a non-root user with passwordless sudo")
    host_key: HostKey = Field(description="public Ed25519 host key, the only one accepted")
    key_file: HomePath | None = Field(default=None, description="private key on this machine")
    private_key: SecretStr | None = Field(default=None, description="or the key itself, as secret")

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if (self.key_file is None) == (self.private_key is None):
            raise ValueError("give exactly one of key_file and private_key")
        return self


class ServerSpec(_Strict):
    """One server."""

    name: ServerName = Field(description="also its host name")
    kind: Literal["container", "vm"] = Field(default="container", description="provider local only")
    image: Literal["debian-13", "debian-12"] = Field(
        default="debian-13", description="provider local only"
    )
    cpus: float = Field(default=2, ge=0.5, le=1024, description="changes in place")
    memory_gib: float = Field(default=2, ge=0.5, le=8192, description="changes in place")
    data_disk_gib: int = Field(
        default=4, ge=1, le=65536, description="at /data, survives a rebuild, can grow"
    )
    secure_boot: bool = Field(
        default=False, description="kind vm only: the firmware boots signed code only"
    )
    extra_disks_gib: list[Annotated[int, Field(ge=1, le=65536)]] = Field(
        default_factory=list,
        max_length=8,
        description="kind vm only: raw disks /dev/disk/by-id/virtio-extra-1, …; can grow",
    )
    baked: bool = Field(
        default=True, description="start from `ferry image build node`'s image where there is one"
    )
    gpu: Gpu | None = Field(
        default=None,
        description="provider local simulates them; without it no GPU role or check runs",
    )
    driver: DriverSpec | None = Field(
        default=None, description="instead of the stack's `driver`, as a whole"
    )
    labels: dict[str, str] = Field(default_factory=dict, description="free text, shown by nodes")
    workload: Literal["general", "training", "rendering", "science"] = Field(
        default="general", description="what it is for, shown by nodes"
    )
    price_per_hour: float | None = Field(
        default=None, ge=0, description="what it costs, in the team's currency; for policy"
    )
    open_ports: list[Port] = Field(
        default_factory=list, description="reachable from outside; all others are closed"
    )
    encrypted_volumes: list[EncryptedVolume] = Field(
        default_factory=list, max_length=8, description="refused where they cannot be had safely"
    )
    ssh: SshAccess | None = Field(default=None, description="provider ssh only")

    @model_validator(mode="after")
    def _driver_of_gpus(self) -> Self:
        if self.driver is not None and self.gpu is None:
            raise ValueError(
                "driver: the server declares no gpu, so nothing would be installed; add gpu: "
                "{model: …, count: …}, or leave driver out"
            )
        return self

    @model_validator(mode="after")
    def _volumes_once(self) -> Self:
        volumes = self.encrypted_volumes
        _refuse_duplicates("encrypted_volumes", [v.name for v in volumes])
        _refuse_duplicates("encrypted_volumes (path)", [v.path for v in volumes])
        _refuse_duplicates("encrypted_volumes (device)", [v.device for v in volumes if v.device])
        return self

    @model_validator(mode="after")
    def _ports_once(self) -> Self:
        declared = Counter((p.protocol, p.port) for p in self.open_ports)
        for (protocol, port), times in declared.items():
            if times > 1:
                raise ValueError(
                    f"port {port}/{protocol} is declared {times} times; keep one entry"
                )
        return self


class FirewallSpec(_Strict):
    """Who may reach SSH. All other ports are closed unless a server declares them."""

    ssh_from: list[Cidr] = Field(
        default_factory=list, description="networks; the local provider adds its own"
    )
    ssh_open_to_the_world: bool = Field(
        default=False, description="the word that 0.0.0.0/0 or ::/0 needs"
    )


class SshSpec(_Strict):
    """How SSH on the servers behaves; who may reach it is `firewall.ssh_from`."""

    key_exchange: Literal["compatible", "pq_only"] = Field(
        default="compatible",
        description="pq_only: post-quantum ones only; needs Debian 13, refused where a client of "
        "this machine could no longer connect",
    )
    port_forwarding: list[UserName] = Field(
        default_factory=list,
        description="accounts that may forward local ports (`ssh -L`), for notebooks",
    )


class MirrorsSpec(_Strict):
    """Where servers get packages from, and which certificate authorities they trust."""

    inherit: bool = Field(default=True, description="take this machine's settings (provider local)")
    debian: Url | None = Field(default=None, description="instead of the server's own sources")
    debian_security: Url | None = Field(default=None, description="the same for security updates")
    extra_ca_files: list[HomePath] = Field(
        default_factory=list, description="PEM files on this machine"
    )

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.debian is None) != (self.debian_security is None):
            raise ValueError("give both debian and debian_security, or neither")
        return self


class DockerSpec(_Strict):
    """Docker on the servers."""

    source: Literal["distribution", "docker"] = Field(
        default="distribution", description="whose packages: Debian's, or Docker's repository"
    )
    daemon_options: dict[str, object] = Field(
        default_factory=dict, description="merged into daemon.json"
    )


class UpdatesSpec(_Strict):
    """Security updates of the servers; nothing else is updated by itself."""

    automatic: bool = Field(default=True, description="installed daily; off: only counted")
    reboot_window: RebootWindow = Field(
        default="",
        description="when a server may reboot for an update, such as 'Sun 03:00-05:00' (UTC), and "
        "only while nothing runs on it; empty: never by itself",
    )


class UserSpec(_Strict):
    """A person with an account on every server."""

    name: UserName = Field(description="of the account")
    public_keys: list[PublicKey] = Field(min_length=1, description="OpenSSH public keys")
    sudo: bool = Field(default=False, description="may become root without a password")


class Spec(_Strict):
    """Everything one stack declares."""

    provider: ProviderName = Field(default="local", description="where servers come from")
    servers: list[ServerSpec] = Field(min_length=1)
    object_stores: list[ObjectStoreSpec] = Field(default_factory=list)
    firewall: FirewallSpec = Field(default_factory=FirewallSpec)
    ssh: SshSpec = Field(default_factory=SshSpec)
    mirrors: MirrorsSpec = Field(default_factory=MirrorsSpec)
    docker: DockerSpec = Field(default_factory=DockerSpec)
    driver: DriverSpec = Field(default_factory=DriverSpec)
    updates: UpdatesSpec = Field(default_factory=UpdatesSpec)
    agent: AgentSpec = Field(default_factory=AgentSpec)
    logs: LogsSpec | None = Field(default=None, description="kept in an object store")
    monitoring: MonitoringSpec | None = Field(default=None, description="alerts; {} turns them on")
    users: list[UserSpec] = Field(default_factory=list)
    policy: PolicySpec = Field(default_factory=PolicySpec)
    secrets: dict[SecretName, SecretSpec] = Field(
        default_factory=dict, description="by name; see `./ferry secret --help`"
    )
    ssh_wait_seconds: int = Field(
        default=300, ge=5, le=7200, description="how long a new server may take to answer SSH"
    )

    @model_validator(mode="after")
    def _whole(self, info: ValidationInfo) -> Self:
        for key, names in (
            ("servers", [s.name for s in self.servers]),
            ("object_stores", [s.name for s in self.object_stores]),
            ("users", [u.name for u in self.users]),
        ):
            _refuse_duplicates(key, names)
        _refuse_duplicates("ssh.port_forwarding", list(self.ssh.port_forwarding))
        for index, server in enumerate(self.servers):
            _fits_provider(self.provider, index, server)
            _ssh_is_not_an_open_port(index, server)
        for name, secret in self.secrets.items():
            _servers_exist(f"secrets.{name}.servers", secret.servers, self.servers)
        may_come = bool((info.context or {}).get("secrets_may_come"))
        refuse_misfits(self.monitoring, self.servers, self.secrets, secrets_may_come=may_come)
        fits_provider(self.provider, self.object_stores)
        check_logs(self.logs, self.object_stores)
        if self.provider == "ssh" and not self.firewall.ssh_from:
            raise ValueError(
                "firewall.ssh_from: name the networks that may reach SSH (your own address "
                "among them), such as [203.0.113.7/32]"
            )
        return self

    @model_validator(mode="after")
    def _keeps_the_rules(self) -> Self:
        for ruling in evaluate(self):
            if ruling.status == "broken":
                raise ValueError(f"{ruling.rule}: {ruling.why}")
        return self


def _ssh_is_not_an_open_port(index: int, server: ServerSpec) -> None:
    ssh = server.ssh.port if server.ssh else 22
    for position, port in enumerate(server.open_ports):
        if port.protocol == "tcp" and port.port == ssh:
            raise ValueError(
                f"servers[{index}].open_ports[{position}]: {ssh}/tcp is SSH; say who may reach it "
                "with firewall.ssh_from"
            )


def _servers_exist(key: str, names: list[str], servers: list[ServerSpec]) -> None:
    known = [server.name for server in servers]
    for name in names:
        if name not in known:
            raise ValueError(f"{key}: there is no server {name!r}; declared: {', '.join(known)}")


def _refuse_duplicates(key: str, names: list[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(f"{key}: the name {name!r} is used {times} times; names are unique")


def _fits_provider(provider: str, index: int, server: ServerSpec) -> None:
    where = f"servers[{index}]"
    if provider == "ssh" and server.ssh is None:
        raise ValueError(
            f"{where}.ssh: required with provider ssh (address, user, host_key, key_file)"
        )
    if provider != "ssh" and server.ssh is not None:
        raise ValueError(f"{where}.ssh: only for provider ssh; this stack uses {provider}")
    if server.kind == "vm":
        if provider != "local":
            raise ValueError(f"{where}.kind: 'vm' is only for provider local; leave it out")
        _virtual_sizes(where, server)
        return
    for volume in server.encrypted_volumes:
        if provider == "local" and volume.device:
            raise ValueError(
                f"{where}.encrypted_volumes: {volume.name}: a container has no disks of its own; "
                "leave device out, or use kind: vm with extra_disks_gib"
            )
    if server.secure_boot or server.extra_disks_gib:
        key = "secure_boot" if server.secure_boot else "extra_disks_gib"
        raise ValueError(f"{where}.{key}: only for kind: vm; a container has neither")


def _virtual_sizes(where: str, server: ServerSpec) -> None:
    if server.cpus != int(server.cpus):
        raise ValueError(f"{where}.cpus: {server.cpus:g}, but a vm has whole CPUs: 1, 2, …")
    if server.memory_gib < 1:
        raise ValueError(
            f"{where}.memory_gib: {server.memory_gib:g}, but a vm needs at least 1 GiB to boot"
        )
