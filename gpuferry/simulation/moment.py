"""The server's clocks and counters at the moment of a change."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuferry.simulation.scenario import Gpu, Scenario


@dataclass(frozen=True)
class Moment:
    """Read on the server; `energy` has (mJ, busy ns of the marks) for each GPU."""

    now_ms: int
    uptime_seconds: float = 0
    energy: list[tuple[float, float]] = field(default_factory=list)
    log_records: int = 0


def keep_energy(scenario: Scenario, moment: Moment) -> Scenario:
    """Let the energy counters go on from where they are, whatever the next power is."""
    for index in range(scenario.count):
        if index < len(moment.energy):
            base, marks = moment.energy[index]
            scenario = with_energy(scenario, index, base, marks, moment)
    return scenario


def with_energy(
    scenario: Scenario, index: int, base: float, marks: float, moment: Moment
) -> Scenario:
    """The scenario with the energy counter of one GPU at `base` mJ."""
    counter = {"energy_base": base, "energy_since": float(moment.now_ms), "energy_marks": marks}
    return with_readings(scenario, index, counter)


def with_readings(scenario: Scenario, index: int, readings: dict[str, float]) -> Scenario:
    """The scenario with some readings of one GPU given."""
    gpu = scenario.gpu(index)
    return scenario.with_gpu(index, changed(gpu, readings={**gpu.readings, **readings}))


def changed(gpu: Gpu, **update: object) -> Gpu:
    """A copy with other values."""
    return gpu.model_copy(update=update)
