"""The facts that a plan is decided on: what `playbooks/module_utils/gpu_facts.py` returns."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from gpuferry.shared import shared

Answer = Literal["ok", "failed", "absent", "hung"]
# nvidia-smi's exit codes for no driver, no library, another version (nvidia-smi(1), RETURN VALUE).
NO_DRIVER = (9, 12, 18)


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PciDevice(_Facts):
    """One PCI device; ids as four lower-case hex digits, class as six."""

    address: str
    vendor: str = "10de"
    device: str
    class_: str = Field(default="030200", alias="class")
    subsystem_vendor: str = ""
    subsystem_device: str = ""
    revision: str = ""
    driver: str = ""
    vgpu: bool = False
    current_link_speed: str = ""
    current_link_width: str = ""
    max_link_speed: str = ""
    max_link_width: str = ""

    @property
    def is_gpu(self) -> bool:
        """VGA or 3D controller of NVIDIA."""
        return self.vendor == "10de" and self.class_.startswith(("0300", "0302"))


class Kernel(_Facts):
    """The running kernel."""

    release: str = ""
    modules_loadable: bool = True
    module_folder: bool = True
    headers_installed: bool = False
    installed: list[str] = Field(default_factory=list)


class OperatingSystem(_Facts):
    """The distribution; the architecture in dpkg's words (amd64, arm64)."""

    id: str = ""
    version_id: str = ""
    codename: str = ""
    architecture: str = "amd64"


class Virtualization(_Facts):
    """What systemd-detect-virt says; empty for none."""

    container: str = ""
    vm: str = ""


class SecureBoot(_Facts):
    """`none`: not started by UEFI. `unknown` is not `off`."""

    state: Literal["on", "off", "unknown", "none"] = "none"
    modules_must_be_signed: Literal["yes", "no", "unknown"] = "no"
    mok: Literal["enrolled", "missing", "unknown"] = "missing"


class Installed(_Facts):
    """An installed package."""

    version: str
    held: bool = False


class Candidate(_Facts):
    """What apt could install; `candidate` is empty when a pin forbids all versions."""

    candidate: str = ""
    versions: list[str] = Field(default_factory=list)
    origins: list[str] = Field(default_factory=list)


class Source(_Facts):
    """One package source."""

    file: str
    uri: str
    suite: str = ""
    components: list[str] = Field(default_factory=list)
    signed_by: str = ""


class SignedByConflict(_Facts):
    """One source with two different keys: apt refuses to work at all."""

    uri: str
    files: list[str]


class Archive(_Facts):
    """The source that carries the release's `main`; `inline`: its key is in the file itself."""

    uri: str = ""
    suite: str = ""
    signed_by: str = ""


class Apt(_Facts):
    """Package sources; `lists` tells whether package lists were ever fetched."""

    nvidia: list[Source] = Field(default_factory=list)
    conflicts: list[SignedByConflict] = Field(default_factory=list)
    components: list[str] = Field(default_factory=list)
    lists: bool = False
    archive: Archive = Field(default_factory=Archive)


class Module(_Facts):
    """The loaded kernel module, and the one on disk for the running kernel."""

    loaded: bool = False
    version: str = ""
    flavour: Literal["open", "proprietary", ""] = ""
    disk_version: str = ""
    disk_flavour: Literal["open", "proprietary", ""] = ""
    disk_file: str = ""
    disk_signer: str = ""


class Library(_Facts):
    """The user-space library on disk."""

    version: str = ""
    path: str = ""


class Dkms(_Facts):
    """One line of `dkms status`."""

    module: str
    version: str
    kernel: str = ""
    architecture: str = ""
    state: str


class Nouveau(_Facts):
    """The kernel's own driver, which keeps NVIDIA's away."""

    loaded: bool = False
    blacklisted: bool = False


class Runfile(_Facts):
    """Marks of NVIDIA's .run installer."""

    marks: list[str] = Field(default_factory=list)


class Smi(_Facts):
    """How nvidia-smi answered within its deadline."""

    state: Answer = "absent"
    code: int | None = None
    gpus: list[dict[str, str]] = Field(default_factory=list)
    pids: list[int] = Field(default_factory=list)


class Process(_Facts):
    """A process, and the numbers of the GPUs that it is on, where they are known."""

    pid: int
    name: str
    gpus: list[int] = Field(default_factory=list)


class Container(_Facts):
    """A running container with GPUs."""

    id: str
    name: str


class Use(_Facts):
    """Who works with the GPUs."""

    holders: list[Process] = Field(default_factory=list)
    compute: list[Process] = Field(default_factory=list)
    compute_state: Answer = "absent"
    containers: list[Container] = Field(default_factory=list)
    containers_state: Answer = "absent"

    @property
    def work(self) -> list[str]:
        """What would be interrupted, in words; also what could not be seen."""
        return list(shared("disturb").work(self.model_dump()))


class Boot(_Facts):
    """This boot."""

    id: str = ""
    uptime_seconds: int = 0
    reboot_required: bool = False
    reboot_packages: list[str] = Field(default_factory=list)


class Docker(_Facts):
    """Installations of Docker that keep their configuration elsewhere."""

    snap: bool = False
    rootless: bool = False


class InstalledBy(_Facts):
    """A package that apt would install; `old` is empty where it is new."""

    name: str
    version: str
    old: str = ""


class Simulation(_Facts):
    """What `apt-get -s install ARGUMENTS` said."""

    arguments: list[str]
    state: Answer = "ok"
    install: list[InstalledBy] = Field(default_factory=list)
    remove: list[str] = Field(default_factory=list)
    problem: str = ""


class Facts(_Facts):
    """Everything a plan needs to know about one server."""

    schema_: int = Field(default=1, alias="schema")
    simulated: bool = False
    pci: list[PciDevice] = Field(default_factory=list)
    kernel: Kernel = Field(default_factory=Kernel)
    os: OperatingSystem = Field(default_factory=OperatingSystem)
    virtualization: Virtualization = Field(default_factory=Virtualization)
    secure_boot: SecureBoot = Field(default_factory=SecureBoot)
    packages: dict[str, Installed] = Field(default_factory=dict)
    candidates: dict[str, Candidate] = Field(default_factory=dict)
    apt: Apt = Field(default_factory=Apt)
    module: Module = Field(default_factory=Module)
    library: Library = Field(default_factory=Library)
    dkms: list[Dkms] = Field(default_factory=list)
    nouveau: Nouveau = Field(default_factory=Nouveau)
    runfile: Runfile = Field(default_factory=Runfile)
    nvidia_smi: Smi = Field(default_factory=Smi)
    use: Use = Field(default_factory=Use)
    boot: Boot = Field(default_factory=Boot)
    docker: Docker = Field(default_factory=Docker)
    simulations: list[Simulation] = Field(default_factory=list)
    seconds: float = 0

    @property
    def gpus(self) -> list[PciDevice]:
        """NVIDIA's GPUs, by address."""
        return sorted((d for d in self.pci if d.is_gpu), key=lambda device: device.address)

    @property
    def whole(self) -> bool:
        """The module is loaded, in the library's version."""
        version = self.module.version
        return self.module.loaded and bool(version) and version == self.library.version

    @property
    def works(self) -> bool:
        """Module and library have one version, and nvidia-smi answers."""
        return self.whole and self.nvidia_smi.state == "ok"

    @property
    def sick(self) -> bool:
        """The driver is whole, but a GPU or a hung program keeps nvidia-smi from answering well."""
        smi = self.nvidia_smi
        failed = smi.state == "failed" and smi.code not in NO_DRIVER
        return self.whole and (failed or smi.state == "hung")

    @property
    def nouveau_holds(self) -> bool:
        """Whether nouveau has to go before NVIDIA's module can come."""
        return self.nouveau.loaded or any(gpu.driver == "nouveau" for gpu in self.gpus)


def branch_of(version: str) -> int:
    """`580` of 580.126.09; 0 when there is none."""
    match = re.match(r"(?:\d+:)?(\d{3})(?:\.|$|-)", version)
    return int(match.group(1)) if match else 0


def upstream(version: str) -> str:
    """`535.309.01` of the package version 535.309.01-0+deb12u1."""
    return version.split(":", 1)[-1].rsplit("-", 1)[0]
