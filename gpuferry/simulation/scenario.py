"""The scenario of one server's simulated GPUs, as it lies in `scenario.json`."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from gpuferry.simulation.readings import READINGS

MAX_GPUS = 16
# The library keeps no more of each (gpusim/src/scenario.h).
MAX_EVENTS = 64
MAX_PROCESSES = 64
MAX_FUNCTIONS = 64

Version = Annotated[str, Field(pattern=r"^\d{3}\.\d{1,3}(\.\d{1,2})?$")]
CudaVersion = Annotated[str, Field(pattern=r"^\d{2}\.\d$")]
FunctionName = Annotated[str, Field(pattern=r"^nvml[A-Z][A-Za-z0-9_]{2,57}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Series(_Strict):
    """A value over time: (seconds, value) pairs, the seconds counted from `since_ms`."""

    points: list[tuple[FiniteFloat, FiniteFloat]] = Field(min_length=1, max_length=1000)
    end: Literal["hold", "loop"] = "hold"
    shape: Literal["step", "linear"] = "step"
    since_ms: int = Field(default=0, description="ms of the wall clock")

    @model_validator(mode="after")
    def _forwards(self) -> Self:
        times = [time for time, _ in self.points]
        if times[0] < 0 or any(b - a < 0.001 for a, b in pairwise(times)):
            raise ValueError("the times of a series start at 0 or later and grow")
        if self.end == "loop" and times[-1] <= 0:
            raise ValueError("a series that loops needs a last time above 0")
        return self


Value = FiniteFloat | Series


class Process(_Strict):
    """A process on a GPU."""

    pid: int = Field(ge=1, le=4_194_304)
    memory_mib: int = Field(default=0, ge=0)
    type: Literal["C", "G"] = "C"
    keep: bool = Field(default=False, description="listed although no such process lives")


class Event(_Strict):
    """An Xid that happened."""

    sequence: int
    time_ms: int
    xid: int = Field(ge=1, le=999)


class FunctionFault(_Strict):
    """A function that does not do what it should."""

    function: FunctionName
    gpu: int | None = Field(default=None, ge=0, lt=MAX_GPUS, description="none: of every GPU")
    action: Literal["return", "delay", "hang"]
    value: int = Field(default=0, ge=0, le=86_400_000, description="NVML return code, or ms")


class Gpu(_Strict):
    """What differs from the profile on one GPU."""

    error: int = Field(default=0, ge=0, le=999, description="what every function returns")
    readings: dict[str, Value] = Field(default_factory=dict)
    absent: list[str] = Field(default_factory=list, description="readings it does not support")
    processes: list[Process] = Field(default_factory=list, max_length=MAX_PROCESSES)
    events: list[Event] = Field(default_factory=list, max_length=MAX_EVENTS)

    @model_validator(mode="after")
    def _known(self) -> Self:
        for name in [*self.readings, *self.absent]:
            if name not in READINGS:
                raise ValueError(f"there is no reading {name!r}")
        return self


class Scenario(_Strict):
    """Everything the library pretends on one server."""

    profile: str = Field(description="model, a name of gpusim/profiles")
    count: int = Field(ge=0, le=MAX_GPUS)
    driver_version: Version | None = Field(
        default=None, description="none: what the file `driver` beside the scenario says"
    )
    cuda_version: CudaVersion | None = None
    seed: str = Field(min_length=1, description="serial numbers and UUIDs follow from it")
    sequence: int = Field(default=0, description="of the last Xid; never falls")
    init_error: int = Field(default=0, ge=0, le=999)
    no_devices: bool = Field(default=False, description="the library sees none of the GPUs")
    process_stride: Literal[24, 32] = 24
    functions: list[FunctionFault] = Field(default_factory=list, max_length=MAX_FUNCTIONS)
    gpus: list[Gpu] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_for_each(self) -> Self:
        if len(self.gpus) > self.count:
            raise ValueError(f"{len(self.gpus)} GPUs are described, but count is {self.count}")
        return self

    def gpu(self, index: int) -> Gpu:
        """What differs on one GPU."""
        return self.gpus[index] if index < len(self.gpus) else Gpu()

    def with_gpu(self, index: int, gpu: Gpu) -> Scenario:
        """The scenario with one GPU described otherwise."""
        gpus = [self.gpu(i) for i in range(self.count)]
        gpus[index] = gpu
        return self.model_copy(update={"gpus": gpus})
