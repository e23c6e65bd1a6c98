"""The scenario in the form that the library reads: lines of words (gpusim/src/scenario_parse.c)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from gpuferry.driver.mig import profiles_of
from gpuferry.simulation import pci_tree, profiles
from gpuferry.simulation.profiles import Profile
from gpuferry.simulation.readings import READINGS
from gpuferry.simulation.scenario import Gpu, Scenario, Series, Value

SIMULATED = " (simulated)"
_NAMESPACE = uuid.UUID("5d1f3c2e-6f0e-4f0b-9a52-0c1f6f4d6a11")
# Reported as supported by data-centre GPUs: all reasons of the API reference up to 0x100.
_THROTTLE_SUPPORTED = 0x1FF


def compiled(scenario: Scenario) -> str:
    """The text of `/var/lib/gpusim/scenario`; the same scenario always gives the same text.

    Raises:
        SpecError: the scenario's profile does not exist.
    """
    profile = profiles.find(scenario.profile)
    lines = [
        "gpusim-scenario 1",
        *_driver(scenario),
        f"init-error {scenario.init_error}",
        f"process-stride {scenario.process_stride}",
    ]
    lines += [_function(f.function, f.action, f.value) for f in scenario.functions if f.gpu is None]
    for index in range(0 if scenario.no_devices else scenario.count):
        lines += _gpu(scenario, profile, index)
    return "\n".join([*lines, "end", ""])


def _driver(scenario: Scenario) -> list[str]:
    if scenario.driver_version is None or scenario.cuda_version is None:
        return ["driver installed"]
    major, minor = scenario.cuda_version.split(".")
    return [
        f"driver {scenario.driver_version}",
        f"nvml {major}.{scenario.driver_version}",
        f"cuda {int(major) * 1000 + int(minor) * 10}",
    ]


def gpu_uuid(seed: str, index: int) -> str:
    """UUID of a GPU, the same for a server of the same seed."""
    return f"GPU-{uuid.uuid5(_NAMESPACE, f'{seed}/{index}')}"


def _serial(seed: str, index: int) -> str:
    return str(10**12 + uuid.uuid5(_NAMESPACE, f"{seed}/{index}/serial").int % 10**12)


def _function(name: str, action: str, value: int) -> str:
    return f"function {name} {action} {value}"


def _gpu(scenario: Scenario, profile: Profile, index: int) -> list[str]:
    gpu = scenario.gpu(index)
    texts = {
        "name": profile.name + SIMULATED,
        "uuid": gpu_uuid(scenario.seed, index),
        "vbios": profile.vbios,
        "part_number": profile.part_number,
        # GeForce boards have no serial number that NVML tells.
        "serial": None if profile.brand == "geforce" else _serial(scenario.seed, index),
    }
    lines = [f"gpu {index}"]
    lines += [f"text {name} {text}" for name, text in texts.items() if text is not None]
    if gpu.error:
        lines.append(f"error {gpu.error}")
    readings = _readings(scenario, profile, index, gpu)
    lines += [_reading(name, readings[name]) for name in sorted(readings)]
    lines += [f"absent {name}" for name in sorted(gpu.absent)]
    lines += _mig(profile)
    for process in gpu.processes:
        keep = "keep" if process.keep else "live"
        lines.append(f"process {process.pid} {process.memory_mib << 20} {process.type} {keep}")
    lines += [f"event {event.sequence} {event.time_ms} {event.xid}" for event in gpu.events]
    own = [f for f in scenario.functions if f.gpu == index]
    return lines + [_function(f.function, f.action, f.value) for f in own]


def _mig(profile: Profile) -> list[str]:
    """The parts it can be cut into; memory and multiprocessors of a part are chosen."""
    profiles = profiles_of(profile.pci_device)
    total = 1 + max((mig.slices for mig in profiles.values()), default=0)
    lines = []
    for name, mig in profiles.items():
        gigabytes = int(name.split(".")[1].split("gb")[0])
        processors = round(profile.readings["multiprocessors"]) * mig.slices // total
        numbers = (mig.slot, mig.id, mig.slices, mig.most, processors, gigabytes * 1000, mig.size)
        lines.append(f"mig {name} {' '.join(map(str, (*numbers, *mig.starts)))}")
    return lines


def _readings(scenario: Scenario, profile: Profile, index: int, gpu: Gpu) -> Mapping[str, Value]:
    slot = pci_tree.gpu_slot(index)
    values: dict[str, Value] = {
        "architecture": profiles.ARCHITECTURES[profile.architecture],
        "brand": profiles.BRANDS[profile.brand],
        "throttle_supported": _THROTTLE_SUPPORTED,
        "compute_mode": 0,
        "persistence": 0,
        "display_active": 0,
        "display_mode": 0,
        "minor_number": index,
        "board_id": slot.bus << 8,
        "pci_domain": slot.domain,
        "pci_bus": slot.bus,
        "pci_device": slot.device,
        "pci_device_id": int(profile.pci_device, 16) << 16 | pci_tree.NVIDIA,
        "pci_subsystem_id": int(profile.pci_subsystem, 16) << 16 | pci_tree.NVIDIA,
        "nvlink_switches": pci_tree.nvswitch_count(profile, scenario.count),
        **dict.fromkeys(("bar1_used", "memory_leaked", "pcie_replay", "pcie_tx", "pcie_rx"), 0),
        **{f"{engine}_utilization": 0 for engine in ("encoder", "decoder", "jpeg", "ofa")},
        **profile.readings,
        **_health(profile),
        **gpu.readings,
    }
    return {name: value for name, value in values.items() if name not in gpu.absent}


def _health(profile: Profile) -> dict[str, Value]:
    """Counters at nought: rows are remapped from Ampere on, pages retired before."""
    if "ecc_mode" not in profile.readings:
        return {}
    names = [name for name in READINGS if name.startswith("ecc_") and name != "ecc_mode"]
    remaps = profiles.ARCHITECTURES[profile.architecture] >= profiles.ARCHITECTURES["ampere"]
    prefix = "remapped_" if remaps else "retired_"
    return dict.fromkeys([*names, *(name for name in READINGS if name.startswith(prefix))], 0.0)


def _reading(name: str, value: Value) -> str:
    scale = READINGS[name].scale
    if not isinstance(value, Series):
        return f"reading {name} {round(value * scale)}"
    points = " ".join(f"{round(time * 1000)} {round(v * scale)}" for time, v in value.points)
    return f"series {name} {value.end} {value.shape} {value.since_ms} {points}"
