"""What the detectors look at: readings condensed to points of a few seconds.

Ratios are 0 to 1, times monotonic seconds, rates per second. None is "not known", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Work:
    """The processes that NVML lists for a GPU, and their children (loader workers)."""

    pids: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()
    zombies: tuple[int, ...] = ()
    # When the oldest of `pids` began, in seconds since boot.
    started: float | None = None
    # CPU of all of them, of the busiest listed process, and per worker.
    cores: float | None = None
    main_cores: float | None = None
    worker_cores: float | None = None
    workers: int = 0
    # Share of the workers (of all, where there are none) found in R, S and D.
    running: float = 0.0
    sleeping: float = 0.0
    waiting: float = 0.0
    read_bytes: float | None = None
    # "pid 7 in kernel_clone"; without the right to see it, "pid 7".
    waits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """One GPU over a few seconds."""

    at: float
    seconds: float = 5.0
    utilization: float | None = None
    utilization_least: float | None = None
    utilization_most: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    memory_used_bytes: float | None = None
    temperature_celsius: float | None = None
    slowdown_celsius: float | None = None
    # Share of the samples with a hardware slowdown, and with a software thermal one.
    throttled_hardware: float | None = None
    throttled_thermal: float | None = None
    clock_events: int = 0
    work: Work | None = None

    @property
    def power_ratio(self) -> float | None:
        """Power of the enforced limit."""
        if self.power_watts is None or not self.power_limit_watts:
            return None
        return self.power_watts / self.power_limit_watts


@dataclass(frozen=True, slots=True)
class HostPoint:
    """The server over the same seconds."""

    at: float
    cpu_idle: float | None = None
    cpu_iowait: float | None = None
    psi_cpu: float | None = None
    psi_io: float | None = None
    psi_memory: float | None = None
    memory_available: float | None = None
    major_faults: float | None = None
    disk_bytes: float | None = None
    received_bytes: float | None = None
    sent_bytes: float | None = None
    link_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How long ago a job last advanced, and the longest it ever took between two steps."""

    age_seconds: float
    longest_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class XidEvent:
    """A fault that the driver told of. `action` is the catalogue's, see xid.json.

    `age_seconds` is since its first line, `quiet_seconds` since its last.
    """

    code: int
    action: str
    what: str
    age_seconds: float
    quiet_seconds: float
    line: str = ""
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """What a GPU says about itself, beside its readings."""

    error: int | None = None
    error_polls: int = 0
    error_text: str = ""
    seen: bool = True
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    xids: tuple[XidEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Driver:
    """ok, starting, hung, failed or off; `detail` is the call or the driver's own words."""

    status: str = "ok"
    detail: str = ""
    silent_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Window:
    """Everything that is known about one GPU, oldest point first."""

    now: float
    points: tuple[Point, ...] = ()
    host: tuple[HostPoint, ...] = ()
    health: Health = field(default_factory=Health)
    driver: Driver = field(default_factory=Driver)
    progress: Progress | None = None
