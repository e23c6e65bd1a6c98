"""What is wanted of a driver; the stack file's `driver` block in the words of the plan."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Allowance = Literal["kernel_change", "remove_driver", "reboot", "disturb"]


class Cuda(BaseModel):
    """CUDA versions such as `12.4`, side by side."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    runtime: list[str] = Field(default_factory=list)
    toolkit: list[str] = Field(default_factory=list)


class Wish(BaseModel):
    """The defaults leave everything to the facts, and allow nothing that could interrupt work."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Literal["auto", "distribution", "nvidia"] = "auto"
    branch: str | None = None
    flavour: Literal["auto", "open", "proprietary"] = "auto"
    cuda: Cuda = Field(default_factory=Cuda)
    allow: list[Allowance] = Field(default_factory=list)
    gpus: int = 0
    # GPU index to MIG profiles; None leaves MIG alone.
    mig: dict[int, list[str]] | None = None

    @property
    def branch_number(self) -> int:
        """580 for both `580` and `580.126.09`; 0 when the facts decide."""
        return int(self.branch.split(".")[0]) if self.branch else 0

    @property
    def exact(self) -> str:
        """The exact version, when one was named."""
        return self.branch if self.branch and "." in self.branch else ""
