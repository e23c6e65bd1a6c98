"""Faults, as a long-running program with pynvml meets them."""

from __future__ import annotations

import time

import pytest

from tests.support.simulated import Simulated, wait_until

WAIT = "(lambda d: [d.eventType, d.eventData, n.nvmlDeviceGetIndex(d.device)])(n.nvmlEventSetWait_v2(kept['set'], {}))"  # noqa: E501
LISTEN = (
    "[kept.update(set=n.nvmlEventSetCreate()), "
    "[n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, kept['set']) for h in g]][0]"
)


def test_a_lost_gpu_says_so_in_every_call_and_the_others_go_on(gpus: Simulated) -> None:
    client = gpus.make().client()
    gpus.fault("lost", gpu=1)
    for call in ("nvmlDeviceGetTemperature(g[1], 0)", "nvmlDeviceGetUUID(g[1])"):
        assert client.error(f"n.{call}") == 15
    assert client.error("n.nvmlDeviceGetHandleByIndex(1)") == 15
    assert client("n.nvmlDeviceGetCount()") == 2
    assert client("n.nvmlDeviceGetTemperature(g[0], 0)") == 38
    log = (gpus.folder / "run/kmsg").read_text().splitlines()
    assert [line.split(";")[1] for line in log] == [
        "NVRM: Xid (PCI:0000:02:00): 79, pid='<unknown>', name=<unknown>, "
        "GPU has fallen off the bus.",
        "NVRM: GPU 0000:02:00.0: GPU has fallen off the bus.",
    ]
    gpus.clear()
    assert client("n.nvmlDeviceGetTemperature(g[1], 0)") == 38


@pytest.mark.parametrize(("kind", "code"), [("unknown-error", 999), ("reset-required", 16)])
def test_a_failing_gpu_keeps_its_handle(gpus: Simulated, kind: str, code: int) -> None:
    client = gpus.make().client()
    gpus.fault(kind, gpu=0)
    assert client.error("n.nvmlDeviceGetPowerUsage(g[0])") == code
    assert client("str(n.nvmlDeviceGetHandleByIndex(0))")


@pytest.mark.parametrize(("kind", "code"), [("driver-not-loaded", 9), ("version-mismatch", 18)])
def test_nvml_does_not_start(gpus: Simulated, kind: str, code: int) -> None:
    gpus.make().fault(kind)
    client = gpus.client(start=False)
    assert client.error("start()") == code
    gpus.clear()
    assert client("start()") == 2


def test_a_hanging_call_leaves_other_threads_running_until_the_fault_is_cleared(
    gpus: Simulated,
) -> None:
    client = gpus.make().client()
    gpus.fault("hang", function="nvmlDeviceGetPowerUsage", gpu=1)
    client(
        "[kept.update(t=threading.Thread(target=lambda: kept.update(power="
        "n.nvmlDeviceGetPowerUsage(g[1])), daemon=True)), kept['t'].start()][0]"
    )
    assert client("n.nvmlDeviceGetPowerUsage(g[0])") == 16300
    assert client("kept['t'].join(0.3) or kept['t'].is_alive()") is True
    gpus.clear()
    assert client("kept['t'].join(5) or kept['t'].is_alive()") is False
    assert client("kept['power']") == 16300


def test_a_slow_function_is_slow_and_right(gpus: Simulated) -> None:
    client = gpus.make().client()
    gpus.fault("delay", function="nvmlDeviceGetName", milliseconds=300)
    started = time.monotonic()
    assert client("n.nvmlDeviceGetName(g[0])") == "NVIDIA L4 (simulated)"
    assert 0.3 <= time.monotonic() - started < 1
    assert client("n.nvmlDeviceGetSerial(g[0])").isdigit()


def test_an_xid_reaches_the_event_set_and_the_kernel_log(gpus: Simulated) -> None:
    client = gpus.make().client()
    gpus.fault("xid", gpu=0, code=13)
    client(LISTEN)
    assert client.error(WAIT.format(100)) == 10, "what was before does not count"
    gpus.fault("xid", gpu=1, code=48)
    gpus.fault("xid", gpu=0, code=94)
    assert client(WAIT.format(2000)) == [8, 48, 1]
    assert client(WAIT.format(2000)) == [8, 94, 0]
    assert client.error(WAIT.format(50)) == 10
    log = (gpus.folder / "run/kmsg").read_text()
    assert "NVRM: Xid (PCI:0000:02:00): 48, " in log
    assert log.count("NVRM: Xid") == 3
    gpus.clear()
    gpus.fault("xid", gpu=0, code=31)
    assert client(WAIT.format(2000)) == [8, 31, 0]


def test_waiting_for_an_event_takes_the_time_it_was_given_and_no_processor(
    gpus: Simulated,
) -> None:
    client = gpus.make().client()
    client(LISTEN)
    before = client("time.process_time()")
    started = time.monotonic()
    assert client.error(WAIT.format(1000)) == 10
    assert 0.95 < time.monotonic() - started < 2
    assert client("time.process_time()") - before < 0.2


def test_memory_faults_count_up(gpus: Simulated) -> None:
    client = gpus.make("H100").client()
    gpus.fault("ecc-corrected", gpu=0, count=5)
    gpus.fault("ecc-uncorrected", gpu=0, count=2)
    gpus.fault("ecc-uncorrected", gpu=0, count=1)
    total = (
        "[n.nvmlDeviceGetTotalEccErrors(g[0], kind, since) for kind in (0, 1) for since in (0, 1)]"
    )
    assert client(total) == [5, 5, 3, 3]
    gpus.fault("remap-pending", gpu=0)
    assert client("n.nvmlDeviceGetRemappedRows(g[0])") == [0, 1, 1, 0]
    gpus.fault("remap-failed", gpu=0)
    assert client("n.nvmlDeviceGetRemappedRows(g[0])") == [0, 2, 1, 1]
    log = (gpus.folder / "run/kmsg").read_text()
    assert ["63" in log, "Row remapping failure" in log] == [True, True]


def test_old_gpus_retire_pages_instead(gpus: Simulated) -> None:
    gpus.make("T4").set("retired_uncorrected=3", "retired_pending=1")
    client = gpus.client()
    assert client.error("n.nvmlDeviceGetRemappedRows(g[0])") == 3
    assert len(client("n.nvmlDeviceGetRetiredPages(g[0], 1)")) == 3
    assert client("n.nvmlDeviceGetRetiredPagesPendingStatus(g[0])") == 1


def test_a_gpu_that_goes_from_the_scenario_is_lost_to_who_holds_its_handle(
    gpus: Simulated,
) -> None:
    client = gpus.make().client()
    gpus.fault("no-devices")
    assert client("n.nvmlDeviceGetCount()") == 0
    assert client.error("n.nvmlDeviceGetName(g[0])") == 15
    gpus.clear()
    wait_until("the GPU again", lambda: client("n.nvmlDeviceGetName(g[0])"))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("power_limit", "nvmlDeviceGetPowerManagementLimit(g[0])"),
        ("power_limit", "nvmlDeviceGetEnforcedPowerLimit(g[0])"),
        ("throttle_reasons", "nvmlDeviceGetCurrentClocksEventReasons(g[0])"),
        ("memory_total", "nvmlDeviceGetMemoryInfo(g[0])"),
        ("memory_used", "nvmlDeviceGetMemoryInfo(g[0])"),
        ("utilization", "nvmlDeviceGetUtilizationRates(g[0])"),
        ("performance_state", "nvmlDeviceGetPerformanceState(g[0])"),
        ("temperature", "nvmlDeviceGetTemperature(g[0], 0)"),
        ("power", "nvmlDeviceGetPowerUsage(g[0])"),
        ("bar1_total", "nvmlDeviceGetBAR1MemoryInfo(g[0])"),
    ],
)
def test_an_absent_reading_is_not_supported_also_where_it_follows_from_the_load(
    gpus: Simulated, name: str, call: str
) -> None:
    client = gpus.make().client()
    assert client.error(f"n.{call}") is None
    gpus.set(f"{name}=absent", gpu=0)
    assert client.error(f"n.{call}") == 3
    assert client.error(f"n.{call.replace('g[0]', 'g[1]')}") is None
    gpus.set(f"{name}=default", gpu=0)
    assert client.error(f"n.{call}") is None


@pytest.mark.parametrize("words", [["memory_used=1000000"], ["memory_total=100"]])
def test_no_more_memory_is_in_use_than_there_is(gpus: Simulated, words: list[str]) -> None:
    client = gpus.make().client()
    gpus.set(*words, gpu=0)
    for version in ("", ", version=n.nvmlMemory_v2"):
        memory = client(f"n.nvmlDeviceGetMemoryInfo(g[0]{version})")
        assert memory["used"] + memory["free"] <= memory["total"], memory
