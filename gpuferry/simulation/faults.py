"""`ferry sim NAME fault`: what each fault does to the scenario and to the kernel log; pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from gpuferry.errors import SpecError
from gpuferry.simulation import kernel_log, pci_tree
from gpuferry.simulation.functions import known_function
from gpuferry.simulation.moment import Moment, changed, keep_energy, with_energy, with_readings
from gpuferry.simulation.scenario import (
    MAX_EVENTS,
    MAX_FUNCTIONS,
    Event,
    FunctionFault,
    Gpu,
    Scenario,
)

# Bits of the NVML API reference.
THROTTLE_REASONS = {
    "power-cap": 0x4,
    "hw-slowdown": 0x8,
    "sw-thermal": 0x20,
    "hw-thermal": 0x48,  # comes with the general hardware bit
    "power-brake": 0x88,
}


@dataclass(frozen=True)
class Request:
    """A fault as a person asks for it."""

    kind: str
    gpu: int | None = None
    function: str | None = None
    code: int | None = None
    count: int | None = None
    reason: str | None = None
    milliseconds: int | None = None


@dataclass(frozen=True)
class Change:
    """The new scenario, messages for the kernel log, and settings to forget."""

    scenario: Scenario
    messages: list[str] = field(default_factory=list)
    # What `nvidia-smi` has set on the server (`0.power_limit`) would hide what is set now.
    forget: list[str] = field(default_factory=list)


_Apply = Callable[[Scenario, Request, Moment], Change]


@dataclass(frozen=True)
class Kind:
    """A kind of fault: what it is, which options it needs and which it may have."""

    summary: str
    apply: _Apply
    needs: frozenset[str] = frozenset()
    may_have: frozenset[str] = frozenset()


def inject(scenario: Scenario, request: Request, moment: Moment) -> Change:
    """The scenario with the fault.

    Raises:
        SpecError: an unknown kind, an option too many or too few, a value that cannot be.
    """
    kind = KINDS.get(request.kind)
    if kind is None:
        raise SpecError(f"{request.kind!r} is no fault; accepted: {', '.join(KINDS)}.")
    for option in ("gpu", "function", "code", "count", "reason", "milliseconds"):
        is_given = getattr(request, option) is not None
        if option in kind.needs and not is_given:
            raise SpecError(
                f"The fault {request.kind} needs --{option}: {_accepted(option, scenario)}."
            )
        if is_given and option not in kind.needs | kind.may_have:
            raise SpecError(f"The fault {request.kind} has no --{option}.")
    if request.gpu is not None and request.gpu >= scenario.count:
        raise SpecError(f"--gpu {request.gpu}: accepted: 0 to {scenario.count - 1}.")
    return kind.apply(keep_energy(scenario, moment), request, moment)


def _accepted(option: str, scenario: Scenario) -> str:
    """What an option takes, in words."""
    return {
        "gpu": f"an index from 0 to {scenario.count - 1}",
        "function": "a function of NVML such as nvmlDeviceGetPowerUsage",
        "code": "an Xid such as 79",
        "count": "a number such as 2 (for memory-leak, of MiB)",
        "reason": f"one of {', '.join(THROTTLE_REASONS)}",
        "milliseconds": "how much longer it takes, such as 300",
    }[option]


def clear(scenario: Scenario, moment: Moment) -> Scenario:
    """Without faults and without set readings; counters go on and the past stays the past."""
    gpus = [
        Gpu(readings={k: v for k, v in gpu.readings.items() if k.startswith("energy_")})
        for gpu in scenario.gpus
    ]
    whole = {"gpus": gpus, "functions": [], "init_error": 0, "no_devices": False}
    healthy = scenario.model_copy(update={**whole, "process_stride": 24})
    return keep_energy(healthy, moment)


def _index(request: Request) -> int:
    assert request.gpu is not None
    return request.gpu


def _xid(scenario: Scenario, request: Request, moment: Moment, xid: int | None = None) -> Change:
    code = xid if xid is not None else request.code
    assert code is not None
    if not 1 <= code <= 999:
        raise SpecError(f"--code {code}: accepted: an Xid from 1 to 999.")
    index = _index(request)
    gpu = scenario.gpu(index)
    event = Event(sequence=scenario.sequence + 1, time_ms=moment.now_ms, xid=code)
    events = [*gpu.events, event][-MAX_EVENTS:]
    scenario = scenario.with_gpu(index, changed(gpu, events=events))
    scenario = scenario.model_copy(update={"sequence": event.sequence})
    return Change(scenario, [kernel_log.xid_message(pci_tree.gpu_slot(index), code)])


def _gpu_error(code: int, scenario: Scenario, request: Request, _: Moment) -> Change:
    gpu = scenario.gpu(_index(request))
    return Change(scenario.with_gpu(_index(request), changed(gpu, error=code)))


def _lost(scenario: Scenario, request: Request, moment: Moment) -> Change:
    gone = _gpu_error(15, scenario, request, moment).scenario
    change = _xid(gone, request, moment, 79)
    also = kernel_log.off_the_bus_message(pci_tree.gpu_slot(_index(request)))
    return Change(change.scenario, [*change.messages, also])


def _whole(update: dict[str, object], scenario: Scenario, *_: object) -> Change:
    return Change(scenario.model_copy(update=update))


def _function(action: str, code: int, scenario: Scenario, request: Request, _: Moment) -> Change:
    assert request.function is not None
    name = known_function(request.function)
    value = request.milliseconds if action == "delay" else code
    fault = FunctionFault.model_validate(
        {"function": name, "gpu": request.gpu, "action": action, "value": value}
    )
    others = [
        f for f in scenario.functions
        if (f.function, f.gpu, f.action) != (fault.function, fault.gpu, fault.action)
    ]  # fmt: skip
    if len(others) >= MAX_FUNCTIONS:
        raise SpecError(f"No more than {MAX_FUNCTIONS} functions can be faulty; clear some first.")
    return Change(scenario.model_copy(update={"functions": [*others, fault]}))


def _ecc(kind: str, scenario: Scenario, request: Request, _: Moment) -> Change:
    names = [f"ecc_dram_{since}_{kind}" for since in ("volatile", "aggregate")]
    count = request.count or 0
    return Change(_add(scenario, _index(request), dict.fromkeys(names, count)))


def _remap(flag: str, xid: int, scenario: Scenario, request: Request, moment: Moment) -> Change:
    index = _index(request)
    scenario = _add(scenario, index, {"remapped_uncorrectable": 1})
    return _xid(with_readings(scenario, index, {flag: 1}), request, moment, xid)


def _throttle(scenario: Scenario, request: Request, _: Moment) -> Change:
    if request.reason not in THROTTLE_REASONS:
        raise SpecError(f"--reason {request.reason}: accepted: {', '.join(THROTTLE_REASONS)}.")
    bits = float(THROTTLE_REASONS[request.reason])
    return Change(with_readings(scenario, _index(request), {"throttle_reasons": bits}))


def _energy_reset(scenario: Scenario, request: Request, moment: Moment) -> Change:
    index = _index(request)
    marks = moment.energy[index][1] if index < len(moment.energy) else 0.0
    return Change(with_energy(scenario, index, 0.0, marks, moment))


def _memory_leak(scenario: Scenario, request: Request, _: Moment) -> Change:
    count = float(request.count or 0)
    return Change(with_readings(scenario, _index(request), {"memory_leaked": count}))


def _add(scenario: Scenario, index: int, more: dict[str, int]) -> Scenario:
    before = scenario.gpu(index).readings
    sums: dict[str, float] = {}
    for name, count in more.items():
        value = before.get(name, 0.0)
        sums[name] = (value if isinstance(value, float) else 0.0) + count
    return with_readings(scenario, index, sums)


_GPU = frozenset({"gpu"})
_CALL = frozenset({"function"})

KINDS: dict[str, Kind] = {
    "lost": Kind("the GPU falls off the bus: error 15, Xid 79, kernel lines", _lost, _GPU),
    "unknown-error": Kind("every call about the GPU: error 999", partial(_gpu_error, 999), _GPU),
    "reset-required": Kind("every call about the GPU: error 16", partial(_gpu_error, 16), _GPU),
    "driver-not-loaded": Kind("NVML does not start: 9", partial(_whole, {"init_error": 9})),
    "version-mismatch": Kind("NVML does not start: 18", partial(_whole, {"init_error": 18})),
    "no-devices": Kind("NVML sees no GPU", partial(_whole, {"no_devices": True})),
    "wide-processes": Kind(
        "process entries of 32 bytes, as early 535 drivers have",
        partial(_whole, {"process_stride": 32}),
    ),
    "hang": Kind("a function does not return", partial(_function, "hang", 0), _CALL, _GPU),
    "delay": Kind(
        "a function takes longer", partial(_function, "delay", 0),
        _CALL | {"milliseconds"}, _GPU,
    ),
    "not-supported": Kind(
        "a function answers 3", partial(_function, "return", 3), _CALL, _GPU
    ),
    "absent": Kind(
        "a function answers 13, as if the driver were too old", partial(_function, "return", 13),
        _CALL, _GPU,
    ),
    "xid": Kind("an Xid as event and in the kernel log", _xid, _GPU | {"code"}),
    "ecc-corrected": Kind(
        "more corrected memory errors", partial(_ecc, "corrected"), _GPU | {"count"}
    ),
    "ecc-uncorrected": Kind(
        "more uncorrected memory errors", partial(_ecc, "uncorrected"), _GPU | {"count"}
    ),
    "remap-pending": Kind(
        "a row waits to be remapped, Xid 63", partial(_remap, "remapped_pending", 63), _GPU
    ),
    "remap-failed": Kind(
        "a row could not be remapped, Xid 64", partial(_remap, "remapped_failed", 64), _GPU
    ),
    "throttle": Kind("clocks are held back", _throttle, _GPU | {"reason"}),
    "energy-reset": Kind("the energy counter starts again", _energy_reset, _GPU),
    "memory-leak": Kind("MiB in use by no process", _memory_leak, _GPU | {"count"}),
}  # fmt: skip
