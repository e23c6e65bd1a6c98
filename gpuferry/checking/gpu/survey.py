"""What one look at a server's GPUs found: the input of every judgement about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gpuferry.checking.expectations import ExpectedCuda
from gpuferry.checking.node import Node
from gpuferry.driver.facts import Facts, PciDevice
from gpuferry.driver.gather import module_sources

_PROGRAMS = Path(__file__).with_name("on_server")
# A healthy answer takes well under a second, a first one without persistence mode a few seconds for
# every GPU. Chosen: a server on which everything hangs costs a check less than half a minute.
SECONDS = {"nvml": 8, "smi": 10, "cuda": 10, "compute": 15}
# The system's NVML and the GPUs' one after the other, each with 4 s for ending it; then compute.
LONGEST_SECONDS = 2 * (SECONDS["nvml"] + 4) + SECONDS["compute"] + 4
_BOOTSTRAP = """
import types
for name in ("ansible", "ansible.module_utils"):
    sys.modules[name] = types.ModuleType(name)
for name, source in payload["sources"]:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
    setattr(sys.modules["ansible.module_utils"], name.rpartition(".")[2], module)
space = {"__name__": "survey"}
exec(compile(payload["survey"], "survey", "exec"), space)
answer = space["survey"](payload)
"""

# NVML's return codes that a person meets, in NVML's own words (API reference, nvmlReturn_t).
_CODES = {
    2: "invalid argument", 3: "not supported", 4: "no permission", 6: "not found",
    9: "driver not loaded", 12: "the library is not installed", 13: "function not found",
    15: "GPU is lost", 16: "GPU requires a reset", 18: "driver/library version mismatch",
    999: "unknown error",
}  # fmt: skip


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Transcript(_Part):
    """What NVML said. `errors`: function and return code; `hung`: the function that never returned.

    `died`: the function in which the reading process ended by itself.
    """

    values: dict[str, Any] = Field(default_factory=dict)
    errors: dict[str, tuple[str, int]] = Field(default_factory=dict)
    hung: str = ""
    died: str = ""

    def why_not(self, key: str) -> str:
        """Why there is no such value, in words; empty when there is one."""
        if key in self.values:
            return ""
        for name in (key, "start"):
            if name in self.errors:
                function, code = self.errors[name]
                return f"{function}: {_CODES.get(code, 'error')} ({code})"
        if self.hung:
            return f"{self.hung} does not return"
        return f"{self.died} ended the reading process" if self.died else "not asked"

    def not_supported(self, key: str) -> bool:
        """The GPU says itself that it does not have this."""
        return self.errors.get(key, ("", 0))[1] == 3


class Nvml(_Part):
    """The system's answers, and those about each GPU in NVML's order. `stuck`: PIDs in state D."""

    system: Transcript = Field(default_factory=Transcript)
    gpus: list[Transcript] = Field(default_factory=list)
    stuck: list[int] = Field(default_factory=list)


class Smi(_Part):
    """What `nvidia-smi` did within its deadline."""

    state: str = "absent"
    code: int | None = None
    out: str = ""
    seconds: float = 0
    stuck: list[int] = Field(default_factory=list)


class Log(_Part):
    """Lines about GPUs since boot; `source` is empty where the kernel's log cannot be read."""

    source: str = ""
    lines: list[str] = Field(default_factory=list)


class Docker(_Part):
    """Docker's version, and driver versions in the names of files that containers have mounted."""

    version: str = ""
    state: str = "absent"
    containers: dict[str, list[str]] = Field(default_factory=dict)


class Cdi(_Part):
    """Specification files, major numbers of /dev/nvidia*, and /proc/devices."""

    files: dict[str, str] = Field(default_factory=dict)
    nodes: dict[str, int] = Field(default_factory=dict)
    devices: str = ""


class Run(_Part):
    """How one of our programs ended."""

    state: str = "absent"
    code: int | None = None
    out: str = ""


class Survey(_Part):
    """Everything."""

    facts: Facts = Field(default_factory=Facts)
    nvml: Nvml = Field(default_factory=Nvml)
    smi: Smi = Field(default_factory=Smi)
    kernel_log: Log = Field(default_factory=Log)
    docker: Docker = Field(default_factory=Docker)
    cdi: Cdi = Field(default_factory=Cdi)
    modules: dict[str, str] = Field(default_factory=dict)
    fabric_manager: dict[str, str] = Field(default_factory=dict)
    cuda: Run | None = None
    compute: Run | None = None

    @property
    def simulated(self) -> bool:
        """Whether the GPUs are simulated: by what lies there, or by any GPU's own name."""
        names = [str(gpu.values.get("name", "")) for gpu in self.nvml.gpus]
        return self.facts.simulated or any("(simulated)" in name for name in names)

    @property
    def on_pci(self) -> list[PciDevice]:
        """GPUs of this server's own; those that are bound to vfio-pci are for its guests."""
        return [gpu for gpu in self.facts.gpus if gpu.driver != "vfio-pci"]

    @property
    def answering(self) -> list[Transcript]:
        """GPUs that tell who they are."""
        return [gpu for gpu in self.nvml.gpus if {"uuid", "name", "pci"} <= gpu.values.keys()]

    @property
    def uuids(self) -> list[str]:
        """UUIDs of the GPUs that answer."""
        return sorted(str(gpu.values["uuid"]) for gpu in self.answering)

    @property
    def no_nvml(self) -> str:
        """Why NVML lists nothing at all; empty when it lists some GPU."""
        if self.nvml.gpus:
            return ""
        return self.nvml.system.why_not("count") or "NVML lists no GPU"

    def device(self, gpu: Transcript) -> PciDevice | None:
        """The PCI device of a GPU that NVML lists."""
        address = gpu.values.get("pci")
        return next((d for d in self.facts.gpus if d.address.lower() == address), None)


def take(node: Node, cuda: ExpectedCuda) -> Survey:
    """Look at a server."""
    names = ("nvml", "cuda", "compute")
    texts = {name: (_PROGRAMS / f"{name}.py").read_text("utf-8") for name in (*names, "survey")}
    request = {
        "sources": module_sources(),
        "survey": texts.pop("survey"),
        "programs": texts,
        "seconds": SECONDS,
        "cuda": cuda.model_dump(),
    }
    return Survey.model_validate(node.python(_BOOTSTRAP, request, LONGEST_SECONDS))


def parsed(run: Run | None) -> dict[str, Any] | None:
    """What a program answered; None when it did not come to an answer."""
    try:
        answer = json.loads(run.out) if run else None
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
