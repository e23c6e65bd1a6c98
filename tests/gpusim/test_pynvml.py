"""The real nvidia-ml-py against the simulated library: layouts, values, results."""

from __future__ import annotations

import ctypes
import os

import pytest

from gpuferry.simulation import profiles
from gpuferry.simulation.compiled import gpu_uuid
from gpuferry.simulation.functions import functions
from gpuferry.simulation.profiles import Profile
from gpuferry.simulation.readings import READINGS
from tests.support.simulated import Client, Simulated, wait_until

MIB = 1 << 20

# Reading to the expression that shows it and the factor from its unit; the values are made below.
EXPRESSIONS = {
    "utilization": ("n.nvmlDeviceGetUtilizationRates(g[0]).gpu", 1),
    "memory_utilization": ("n.nvmlDeviceGetUtilizationRates(g[0]).memory", 1),
    "encoder_utilization": ("n.nvmlDeviceGetEncoderUtilization(g[0])[0]", 1),
    "decoder_utilization": ("n.nvmlDeviceGetDecoderUtilization(g[0])[0]", 1),
    "jpeg_utilization": ("n.nvmlDeviceGetJpgUtilization(g[0])[0]", 1),
    "ofa_utilization": ("n.nvmlDeviceGetOfaUtilization(g[0])[0]", 1),
    "fan_speed": ("n.nvmlDeviceGetFanSpeed(g[0])", 1),
    "temperature": ("n.nvmlDeviceGetTemperature(g[0], 0)", 1),
    "temperature_memory": ("fields(g[0], 82)[0][1]", 1),
    "temperature_shutdown": ("n.nvmlDeviceGetTemperatureThreshold(g[0], 0)", 1),
    "temperature_slowdown": ("n.nvmlDeviceGetTemperatureThreshold(g[0], 1)", 1),
    "temperature_memory_max": ("n.nvmlDeviceGetTemperatureThreshold(g[0], 2)", 1),
    "temperature_gpu_max": ("n.nvmlDeviceGetTemperatureThreshold(g[0], 3)", 1),
    "power": ("n.nvmlDeviceGetPowerUsage(g[0])", 1000),
    "power_limit": ("n.nvmlDeviceGetEnforcedPowerLimit(g[0])", 1000),
    "power_limit_default": ("n.nvmlDeviceGetPowerManagementDefaultLimit(g[0])", 1000),
    "power_limit_min": ("n.nvmlDeviceGetPowerManagementLimitConstraints(g[0])[0]", 1000),
    "power_limit_max": ("n.nvmlDeviceGetPowerManagementLimitConstraints(g[0])[1]", 1000),
    "clock_graphics": ("n.nvmlDeviceGetClockInfo(g[0], 0)", 1),
    "clock_sm": ("n.nvmlDeviceGetClockInfo(g[0], 1)", 1),
    "clock_memory": ("n.nvmlDeviceGetClockInfo(g[0], 2)", 1),
    "clock_video": ("n.nvmlDeviceGetClockInfo(g[0], 3)", 1),
    "clock_graphics_max": ("n.nvmlDeviceGetMaxClockInfo(g[0], 0)", 1),
    "clock_sm_max": ("n.nvmlDeviceGetMaxClockInfo(g[0], 1)", 1),
    "clock_memory_max": ("n.nvmlDeviceGetMaxClockInfo(g[0], 2)", 1),
    "clock_video_max": ("n.nvmlDeviceGetMaxClockInfo(g[0], 3)", 1),
    "clock_graphics_application": ("n.nvmlDeviceGetApplicationsClock(g[0], 0)", 1),
    "clock_memory_application": ("n.nvmlDeviceGetApplicationsClock(g[0], 2)", 1),
    "memory_total": ("n.nvmlDeviceGetMemoryInfo(g[0]).total", MIB),
    "memory_used": ("n.nvmlDeviceGetMemoryInfo(g[0], n.nvmlMemory_v2).used", MIB),
    "memory_reserved": ("n.nvmlDeviceGetMemoryInfo(g[0], n.nvmlMemory_v2).reserved", MIB),
    "bar1_total": ("n.nvmlDeviceGetBAR1MemoryInfo(g[0]).bar1Total", MIB),
    "bar1_used": ("n.nvmlDeviceGetBAR1MemoryInfo(g[0]).bar1Used", MIB),
    "throttle_reasons": ("n.nvmlDeviceGetCurrentClocksEventReasons(g[0])", 1),
    "throttle_supported": ("n.nvmlDeviceGetSupportedClocksThrottleReasons(g[0])", 1),
    "performance_state": ("n.nvmlDeviceGetPerformanceState(g[0])", 1),
    "persistence": ("n.nvmlDeviceGetPersistenceMode(g[0])", 1),
    "compute_mode": ("n.nvmlDeviceGetComputeMode(g[0])", 1),
    "pcie_generation": ("n.nvmlDeviceGetCurrPcieLinkGeneration(g[0])", 1),
    "pcie_generation_max": ("n.nvmlDeviceGetMaxPcieLinkGeneration(g[0])", 1),
    "pcie_width": ("n.nvmlDeviceGetCurrPcieLinkWidth(g[0])", 1),
    "pcie_width_max": ("n.nvmlDeviceGetMaxPcieLinkWidth(g[0])", 1),
    "pcie_tx": ("n.nvmlDeviceGetPcieThroughput(g[0], 0)", 1),
    "pcie_rx": ("n.nvmlDeviceGetPcieThroughput(g[0], 1)", 1),
    "pcie_replay": ("n.nvmlDeviceGetPcieReplayCounter(g[0])", 1),
    "remapped_correctable": ("n.nvmlDeviceGetRemappedRows(g[0])[0]", 1),
    "remapped_uncorrectable": ("n.nvmlDeviceGetRemappedRows(g[0])[1]", 1),
    "remapped_pending": ("n.nvmlDeviceGetRemappedRows(g[0])[2]", 1),
    "remapped_failed": ("n.nvmlDeviceGetRemappedRows(g[0])[3]", 1),
    "ecc_dram_volatile_corrected": ("n.nvmlDeviceGetMemoryErrorCounter(g[0], 0, 0, 2)", 1),
    "ecc_dram_volatile_uncorrected": ("n.nvmlDeviceGetMemoryErrorCounter(g[0], 1, 0, 2)", 1),
    "ecc_dram_aggregate_corrected": ("n.nvmlDeviceGetMemoryErrorCounter(g[0], 0, 1, 2)", 1),
    "ecc_dram_aggregate_uncorrected": ("n.nvmlDeviceGetMemoryErrorCounter(g[0], 1, 1, 2)", 1),
    "ecc_sram_volatile_corrected": ("n.nvmlDeviceGetMemoryErrorCounter(g[0], 0, 0, 7)", 1),
    "ecc_sram_volatile_uncorrected": ("n.nvmlDeviceGetMemoryErrorCounter(g[0], 1, 0, 7)", 1),
    "ecc_sram_aggregate_corrected": ("n.nvmlDeviceGetMemoryErrorCounter(g[0], 0, 1, 7)", 1),
    "ecc_sram_aggregate_uncorrected": ("n.nvmlDeviceGetMemoryErrorCounter(g[0], 1, 1, 7)", 1),
}
# What has few possible values takes these, and the others prime numbers.
FEW = {
    "throttle_reasons": 0x2C, "throttle_supported": 0x1EF, "performance_state": 7,
    "persistence": 1, "compute_mode": 3, "pcie_generation": 2, "pcie_generation_max": 5,
    "pcie_width": 4, "pcie_width_max": 8, "remapped_pending": 1, "remapped_failed": 0,
}  # fmt: skip


def primes(least: int) -> list[int]:
    return [n for n in range(least, least + 2000) if all(n % d for d in range(2, int(n**0.5) + 1))]


def distinct_values() -> dict[str, int]:
    small = iter(n for n in primes(11) if n < 100)
    celsius = iter(n for n in primes(100) if n < 150)
    large = iter(primes(5003))
    watts = iter(primes(211))
    values = {}
    for name in EXPRESSIONS:
        if name in FEW:
            values[name] = FEW[name]
        elif READINGS[name].unit == "W":
            values[name] = next(watts)
        elif READINGS[name].most <= 100:
            values[name] = next(small)
        elif READINGS[name].most <= 150:
            values[name] = next(celsius)
        else:
            values[name] = next(large)
    # Primes as well; no GPU has more in use than it has.
    return values | {"memory_total": 20011, "bar1_total": 10007}


def test_every_getter_tells_its_own_value(gpus: Simulated) -> None:
    values = distinct_values()
    gpus.make("H100").set(*(f"{name}={value}" for name, value in values.items()))
    client = gpus.client()
    shown = {name: client(expression) for name, (expression, _) in EXPRESSIONS.items()}
    assert shown == {name: values[name] * EXPRESSIONS[name][1] for name in EXPRESSIONS}
    distinct = [value for name, value in values.items() if name not in FEW]
    assert len(set(distinct)) == len(distinct), "a swapped field could go unnoticed"


def test_every_reading_that_can_be_set_can_be_seen() -> None:
    derived = {f"{name}{kind}" for name in ("power", "temperature") for kind in ("_idle", "_load")}
    derived |= {f"clock_{c}_idle" for c in ("graphics", "sm", "memory", "video")}
    elsewhere = {"ecc_mode", "mig_mode", "display_active", "display_mode", "memory_leaked"}
    elsewhere |= {"retired_corrected", "retired_uncorrected", "retired_pending"}
    elsewhere |= {"nvlink_count", "nvlink_version", "nvlink_speed", "fabric_state"}
    settable = {name for name, reading in READINGS.items() if reading.settable}
    assert settable == set(EXPRESSIONS) | derived | elsewhere


@pytest.mark.parametrize("profile", profiles.profiles().values(), ids=lambda p: p.model)
def test_a_model_is_what_its_profile_says(gpus: Simulated, profile: Profile) -> None:
    client = gpus.make(profile.model).client()
    published = profile.readings
    shown = {
        "name": client("n.nvmlDeviceGetName(g[1])"),
        "uuid": client("n.nvmlDeviceGetUUID(g[1])"),
        "id": client("n.nvmlDeviceGetPciInfo(g[1]).pciDeviceId"),
        "subsystem": client("n.nvmlDeviceGetPciInfo(g[1]).pciSubSystemId"),
        "bus": client("n.nvmlDeviceGetPciInfo(g[1]).busId"),
        "architecture": client("n.nvmlDeviceGetArchitecture(g[1])"),
        "brand": client("n.nvmlDeviceGetBrand(g[1])"),
        "capability": client("n.nvmlDeviceGetCudaComputeCapability(g[1])"),
        "cores": client("n.nvmlDeviceGetNumGpuCores(g[1])"),
        "memory": client("n.nvmlDeviceGetMemoryInfo(g[1]).total"),
        "limit": client("n.nvmlDeviceGetPowerManagementLimit(g[1])"),
        "clock": client("n.nvmlDeviceGetMaxClockInfo(g[1], 1)"),
        "width": client("n.nvmlDeviceGetMaxPcieLinkWidth(g[1])"),
        "minor": client("n.nvmlDeviceGetMinorNumber(g[1])"),
        "vbios": client("n.nvmlDeviceGetVbiosVersion(g[1])"),
    }
    assert shown == {
        "name": f"{profile.name} (simulated)",
        "uuid": gpu_uuid("test", 1),
        "id": int(profile.pci_device + "10de", 16),
        "subsystem": int(profile.pci_subsystem + "10de", 16),
        "bus": "00000000:02:00.0",
        "architecture": profiles.ARCHITECTURES[profile.architecture],
        "brand": profiles.BRANDS[profile.brand],
        "capability": [published["compute_major"], published["compute_minor"]],
        "cores": published["cores"],
        "memory": published["memory_total"] * MIB,
        "limit": published["power_limit_default"] * 1000,
        "clock": published["clock_sm_max"],
        "width": published["pcie_width_max"],
        "minor": 1,
        "vbios": profile.vbios,
    }


def test_what_a_model_lacks_is_not_supported_and_not_zero(gpus: Simulated) -> None:
    client = gpus.make("L4").client()
    for expression in (
        "n.nvmlDeviceGetFanSpeed(g[0])",
        "n.nvmlDeviceGetMigMode(g[0])",
        "n.nvmlDeviceGetNvLinkState(g[0], 0)",
        "n.nvmlDeviceGetTemperatureThreshold(g[0], 2)",
        "n.nvmlDeviceGetAccountingMode(g[0])",
    ):
        assert client.error(expression) == 3, expression
    assert client.error("n.nvmlDeviceGetMarginTemperature(g[0])") == 13


def test_gpus_are_found_by_uuid_bus_id_and_serial(gpus: Simulated) -> None:
    client = gpus.make().client()
    index = "n.nvmlDeviceGetIndex"
    uuid = gpu_uuid("test", 1)
    assert client(f"{index}(n.nvmlDeviceGetHandleByUUID({uuid!r}))") == 1
    for bus in ("00000000:02:00.0", "0000:02:00.0", "02:00.0"):
        assert client(f"{index}(n.nvmlDeviceGetHandleByPciBusId({bus!r}))") == 1
    assert client.error("n.nvmlDeviceGetHandleByUUID('GPU-none')") == 6
    assert client.error("n.nvmlDeviceGetHandleByIndex(2)") == 2


def test_versions(gpus: Simulated) -> None:
    client = gpus.make(driver="535.261.03").client()
    assert client("n.nvmlSystemGetDriverVersion()") == "535.261.03"
    assert client("n.nvmlSystemGetNVMLVersion()") == "12.535.261.03"
    assert client("n.nvmlSystemGetCudaDriverVersion_v2()") == 12020


def test_each_field_value_has_its_own_result(gpus: Simulated) -> None:
    gpus.make("H100").set("power=611", "pcie_tx=17", "pcie_rx=19", "ecc_sram_volatile_corrected=3")
    gpus.set("ecc_dram_volatile_corrected=5")
    client = gpus.client()
    power, instant, unknown, links, ecc = client("fields(g[0], 185, 186, 9999, 91, 3)")
    assert (power, instant) == ([0, 611000], [0, 611000])
    assert unknown[0] == 3
    assert (links, ecc) == ([0, 18], [0, 8])
    (sent, received) = client("fields(g[0], 197, 198)")
    assert sent[1] / received[1] == pytest.approx(17 / 19, rel=1e-3)
    assert client("[a.nvmlReturn for a in n.nvmlDeviceGetFieldValues(g[0], [(185, 2)])]") == [3]
    gpus.set("power=absent")
    assert client("n.nvmlDeviceGetFieldValues(g[0], [190])[0].nvmlReturn") == 0


def test_memory_of_the_first_version_includes_what_the_driver_reserves(gpus: Simulated) -> None:
    gpus.make().set("memory_used=1000", "memory_reserved=400", "memory_total=9000")
    client = gpus.client()
    old, new = "n.nvmlDeviceGetMemoryInfo(g[0])", "n.nvmlDeviceGetMemoryInfo(g[0], n.nvmlMemory_v2)"
    assert client(f"[{old}.used, {old}.free]") == [1400 * MIB, 7600 * MIB]
    assert client(f"[{new}.used, {new}.free]") == [1000 * MIB, 7600 * MIB]


def test_before_init_and_after_shutdown_nothing_answers(gpus: Simulated) -> None:
    client = gpus.make().client(start=False)
    assert client.error("n.nvmlDeviceGetCount()") == 1
    client("start()")
    client("n.nvmlShutdown()")
    assert client.error("n.nvmlDeviceGetTemperature(g[0], 0)") == 1


def processes(client: Client) -> list[int]:
    pids: list[int] = client("[p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(g[0])]")
    return pids


def test_wide_process_entries_give_a_caller_nonsense_as_early_535_drivers_do(
    gpus: Simulated,
) -> None:
    gpus.make()
    own = [gpus.busy("--gpu", "0", "--seconds", "60").pid for _ in range(3)]
    client = gpus.client()
    wait_until("three processes", lambda: sorted(processes(client)) == sorted(own))
    gpus.fault("wide-processes")
    wrong = processes(client)
    assert len(wrong) == 3
    assert len(set(wrong) & set(own)) < 3
    assert 0xFFFFFFFF in wrong or 0 in wrong


def test_function_faults_work_in_every_function(gpus: Simulated) -> None:
    """A fault in a function that does not ask for it would be a lie of the tool."""
    code = 777
    lines = [f"function {name} return {code}" for name in functions()]
    assert len(lines) > 120
    text = gpus_text(gpus)
    # In portions, since a scenario holds no more than 64.
    deaf = []
    for start in range(0, len(lines), 60):
        portion = lines[start : start + 60]
        names = [line.split()[1] for line in portion]
        # First initialised, then the faults come.
        gpus.write(text.encode())
        client = gpus.client()
        header, rest = text.split("process-stride 24\n")
        gpus.write("\n".join([header + "process-stride 24", *portion, rest]).encode())
        deaf += [name for name in names if code not in client(_CALLS.format(name=name))]
    assert deaf == []


# Arguments that fit one function or another: h is a handle, b a large buffer.
_CALLS = (
    "(lambda f, h, b: [f(*[ctypes.c_void_p(a) if a else 0 for a in arguments]) for arguments in ("
    "(0, b, b, b, b, b), (b, b, 0, b, b, b), (h, 0, b, b, b, b), (h, b, b, b, b, b), "
    "(h, 0, 0, b, b, b), (h, 0, 0, 0, b, b), (h, 0, 0, 2, b, b), (h, h, b, b), (h, h, 0, b))])"
    "(n.nvmlLib['{name}'], ctypes.cast(g[0], ctypes.c_void_p).value, ctypes.cast("
    "kept.setdefault('b', ctypes.create_string_buffer(9999)), ctypes.c_void_p).value)"
)


def gpus_text(gpus: Simulated) -> str:
    from gpuferry.simulation.compiled import compiled

    return compiled(gpus.make("H100").scenario)


def test_a_library_can_be_built_without_a_function(gpus: Simulated) -> None:
    from gpuferry.simulation.library import compile_into

    compile_into(gpus.folder / "poor", "ABSENT=nvmlDeviceGetUUID nvmlDeviceGetPowerUsage")
    library = ctypes.CDLL(str(gpus.folder / "poor/lib/libnvidia-ml.so.1"), mode=os.RTLD_LOCAL)
    assert not hasattr(library, "nvmlDeviceGetUUID")
    assert not hasattr(library, "nvmlDeviceGetPowerUsage")
    assert hasattr(library, "nvmlDeviceGetName")
