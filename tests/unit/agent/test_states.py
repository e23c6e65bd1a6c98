"""What a GPU does is judged from traces: the table below, each a picture that somebody reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.detect.states import judge
from agent.detect.thresholds import Thresholds
from agent.samples import Driver, Health, HostPoint, Point, Progress, Window, Work, XidEvent

NOW = 10_000.0
JOB = Work(pids=(42,), cores=0.0, main_cores=0.0, read_bytes=0.0, sleeping=1.0)
BUSY_JOB = replace(JOB, cores=1.0, main_cores=0.5)
NOBODY = Work(cores=0.0)
QUIET = HostPoint(at=0, cpu_idle=0.99, psi_io=0.0, psi_memory=0.0, disk_bytes=0.0,
                  received_bytes=100.0, sent_bytes=100.0, memory_available=0.9)  # fmt: skip


def trace(seconds: float = 400, **values: Any) -> tuple[Point, ...]:
    """Points of 5 s up to now with the same values."""
    made = {
        "utilization": 0.0, "power_watts": 60.0, "power_limit_watts": 700.0,
        "memory_used_bytes": 0.0, "temperature_celsius": 40.0, "slowdown_celsius": 87.0,
        "throttled_hardware": 0.0, "throttled_thermal": 0.0, "work": NOBODY, **values,
    }  # fmt: skip
    made.setdefault("utilization_least", made["utilization"])
    made.setdefault("utilization_most", made["utilization"])
    count = int(seconds // 5)
    return tuple(Point(at=NOW - 5 * (count - 1 - i), **made) for i in range(count))


def window(points: tuple[Point, ...], host: HostPoint = QUIET, **more: Any) -> Window:
    hosts = tuple(replace(host, at=p.at) for p in points)
    return Window(now=NOW, points=points, host=hosts, **more)


def names(w: Window, **limits: float) -> list[str]:
    return [state.name for state in judge(w, Thresholds(**limits))]


HELD = {"work": JOB, "memory_used_bytes": 4e9}
SPIN = {**HELD, "utilization": 1.0, "power_watts": 119.0}  # 17 % of 700 W
FRESH, OLD = Progress(5.0, 20.0), Progress(360.0, 20.0)


@pytest.mark.parametrize(
    ("what", "w", "expected"),
    [
        ("nobody on it for a minute", window(trace()), ["idle"]),
        ("a process ended half a minute ago",
         window((*trace(work=JOB)[:-6], *trace(30))), ["unknown"]),
        ("half a minute ago nobody knew of processes",
         window((*trace(work=None)[:-6], *trace(30))), ["unknown"]),
        ("just started: half a window says nothing", window(trace(30)), ["unknown"]),
        ("no readings at all", window(()), ["unknown"]),
        ("the last reading is old", replace(window(trace()), now=NOW + 100), ["unknown"]),
        ("utilisation not told, nobody on it",
         window(trace(utilization=None)), ["unknown"]),
        ("one sample without utilisation within the minute",
         window((*trace()[:-3], replace(trace()[-1], at=NOW - 10, utilization_most=None),
                 *trace()[-2:])), ["unknown"]),
        ("processes not told, nothing moves", window(trace(work=None)), ["unknown"]),
        ("processes not told, but busy", window(trace(work=None, utilization=0.9)), ["working"]),
        ("memory in use not told", window(trace(memory_used_bytes=None)), ["unknown"]),
        ("busy without a process that is listed", window(trace(utilization=0.5)), ["working"]),
        ("the same, and it holds memory: it is somebody's",
         window(trace(utilization=0.5, memory_used_bytes=4e9)), ["working"]),
        ("training", window(trace(utilization=0.95, power_watts=500, **HELD)), ["working"]),
        # NCCL#968, soperator#796: full counter, low power.
        ("100 % at 17 % of the power, no word of progress", window(trace(**SPIN)),
         ["collective_hung"]),
        ("the same, and the step counter stands still",
         window(trace(**SPIN), progress=OLD), ["collective_hung"]),
        ("the same, but the steps advance: tiny kernels",
         window(trace(**SPIN), progress=FRESH), ["working", "under_filled"]),
        ("a step takes two minutes: not late after six", window(trace(**SPIN),
         progress=Progress(360, 120)), ["working", "under_filled"]),
        ("full power, but no step for six minutes", window(trace(**{**SPIN, "power_watts": 600}),
         progress=OLD), ["collective_hung"]),
        ("full power, nothing known of progress",
         window(trace(**{**SPIN, "power_watts": 600})), ["working"]),
        ("only for two minutes", window((*trace(300, utilization=0.9, power_watts=500, **HELD)[:36],
         *trace(120, **SPIN))), ["working"]),
        ("one dip within the five minutes", window((*trace(400, **SPIN)[:-20],
         replace(trace(400, **SPIN)[-20], utilization_least=0.1), *trace(400, **SPIN)[-19:])),
         ["working"]),
        ("power is not told", window(trace(**{**SPIN, "power_watts": None})), ["working"]),
        # pytorch#1355: a deadlocked loader holds the memory for days.
        ("memory held, nothing moves for five minutes", window(trace(**HELD)), ["process_hung"]),
        ("the same with a step counter that stands", window(trace(**HELD), progress=OLD),
         ["process_hung"]),
        ("the same, but steps advance: work elsewhere", window(trace(**HELD), progress=FRESH),
         ["allocated_idle"]),
        ("for two minutes only", window(trace(120, **HELD)), ["allocated_idle"]),
        ("processor time unknown", window(trace(work=replace(JOB, cores=None))), ["unknown"]),
        ("tokenising: a core is busy", window(trace(work=BUSY_JOB)), ["cpu_phase"]),
        ("the process reads 50 MB/s", window(trace(work=replace(JOB, read_bytes=5e7))),
         ["cpu_phase"]),
        ("a download: the process' reads cannot be seen, the network moves",
         window(trace(work=replace(JOB, read_bytes=None)), replace(QUIET, received_bytes=2e7)),
         ["cpu_phase"]),
        ("nothing is known about what moves",
         window(trace(work=replace(JOB, read_bytes=None)),
                HostPoint(at=0)), ["allocated_idle"]),
        # GCM, pai#3375, mxnet#4242
        ("memory that no process holds", window(trace(memory_used_bytes=2e9)), ["leaked_memory"]),
        ("for 30 s only: it may still be freed", window((*trace(300, work=JOB)[:54],
         *trace(30, memory_used_bytes=2e9))), ["unknown"]),
        ("a listed process is gone", window(trace(work=Work(absent=(7,), cores=0.0))),
         ["leaked_memory"]),
        ("a zombie for six minutes", window(trace(work=Work(zombies=(7,), cores=0.0))),
         ["leaked_memory"]),
        ("a zombie for a minute: its parent may come", window(
            trace(70, work=Work(zombies=(7,), cores=0.0))), ["unknown"]),
        ("the context's own 400 MiB without a process is a display",
         window(trace(memory_used_bytes=4e8)), ["idle"]),
        ("hardware slowdown for half an hour", window(trace(1800, utilization=0.95,
         power_watts=500, throttled_hardware=1.0, clock_events=0x48, **HELD)),
         ["working", "throttled"]),
        ("idle and power cap are no throttling: a mask, not a number",
         window(trace(1800, clock_events=0x5)), ["idle"]),
        ("thermal slowdown by software for ten minutes is not yet one",
         window(trace(600, throttled_thermal=1.0, clock_events=0x20)), ["idle"]),
        ("for half an hour it is", window(trace(1800, throttled_thermal=1.0, clock_events=0x20)),
         ["idle", "throttled"]),
        ("power brake in every third sample", window(trace(600, throttled_hardware=0.3)), ["idle"]),
        # mmontes11#115: a plateau of 85 °C is normal where the slowdown is at 95.
        ("85 °C below a slowdown of 95", window(trace(temperature_celsius=85.0,
         slowdown_celsius=95.0)), ["idle"]),
        ("83 °C where it slows down at 87", window(trace(temperature_celsius=83.0)),
         ["idle", "hot"]),
        ("83 °C where nobody knows", window(trace(temperature_celsius=83.0,
         slowdown_celsius=None)), ["idle"]),
        ("a row waits for a reset", window(trace(), health=Health(remap_pending=True)),
         ["idle", "reset_due"]),
        ("a row could not be remapped", window(trace(), health=Health(remap_failed=True)),
         ["fault"]),
        ("the GPU is lost", window(trace(), health=Health(error=15, error_polls=3)), ["fault"]),
        # NVSentinel#1701: a single poll after a boot.
        ("one poll failed", window(trace(), health=Health(error=15, error_polls=1)), ["unknown"]),
        ("it was here before", window(trace(), health=Health(seen=False)), ["fault"]),
        ("Xid 79 a minute ago", window(trace(), health=Health(xids=(
            XidEvent(79, "reboot", "lost", 60.0, 60.0),))), ["fault"]),
        ("Xid 79 an hour ago", window(trace(), health=Health(xids=(
            XidEvent(79, "reboot", "lost", 3600.0, 3600.0),))), ["idle"]),
        ("an Xid an hour ago that has come again ever since", window(trace(), health=Health(xids=(
            XidEvent(62, "reset_gpu", "halt", 3600.0, 30.0),))), ["fault"]),
        ("Xid 13 is the job's own", window(trace(), health=Health(xids=(
            XidEvent(13, "restart_app", "exception", 6.0, 6.0),))), ["idle", "job_fault"]),
        ("one that nobody knows is not dropped", window(trace(), health=Health(xids=(
            XidEvent(999, "unknown", "?", 6.0, 6.0), XidEvent(13, "restart_app", "e", 3.0, 3.0)))),
         ["idle", "xid"]),
        ("the cleanup after another is nothing", window(trace(), health=Health(xids=(
            XidEvent(45, "ignore", "cleanup", 6.0, 6.0),))), ["idle"]),
        ("the driver hangs", window(trace(), driver=Driver("hung", "f", 12.0)), ["driver_hung"]),
        ("the driver refuses", window((), driver=Driver("failed", "mismatch")), ["fault"]),
        ("switched off", window((), driver=Driver("off")), ["unknown"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_trace_is_judged(what: str, w: Window, expected: list[str]) -> None:
    assert names(w) == expected


LOADED = {"memory_used_bytes": 4e9, "utilization": 0.35, "utilization_most": 0.9,
          "utilization_least": 0.0, "power_watts": 300.0}  # fmt: skip


def fed(**work: Any) -> tuple[Point, ...]:
    made: dict[str, Any] = {"workers": 2, "cores": 1.0, "main_cores": 0.3, "worker_cores": 0.1}
    return trace(work=replace(JOB, **{**made, **work}), **LOADED)


@pytest.mark.parametrize(
    ("what", "w", "cause"),
    [
        # Rows of the table of measured pipelines in docs/agent.md.
        ("disk, 2 workers", window(fed(waiting=0.83, running=0.17, worker_cores=0.045),
         replace(QUIET, psi_io=0.83, cpu_iowait=0.44, cpu_idle=0.42, disk_bytes=2e9)), "disk"),
        ("disk, 1 worker, no pressure files", window(fed(waiting=0.77, workers=1),
         replace(QUIET, psi_io=None, psi_memory=None)), "disk"),
        ("CPU, 2 workers of 2 cores", window(fed(running=1.0, worker_cores=0.97),
         replace(QUIET, cpu_idle=0.0, psi_cpu=0.04)), "cpu"),
        ("CPU, 1 worker, a core is free", window(fed(running=1.0, worker_cores=1.0, workers=1),
         replace(QUIET, cpu_idle=0.48)), "workers"),
        ("no workers at all", window(fed(workers=0, worker_cores=None, main_cores=0.95)),
         "workers"),
        ("launch bound", window(fed(main_cores=0.98, worker_cores=0.0)), "launch"),
        ("network at 20 MB/s", window(fed(sleeping=0.98, worker_cores=0.005),
         replace(QUIET, received_bytes=19e6, psi_io=0.1, cpu_idle=0.9)), "network"),
        ("memory pressure comes first", window(fed(waiting=0.5),
         replace(QUIET, psi_memory=0.2, psi_io=0.5)), "memory"),
        ("hardly any memory is left", window(fed(), replace(QUIET, memory_available=0.05)),
         "memory"),
        ("nothing to be seen", window(fed()), "other"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_starved_gpu_has_a_cause(what: str, w: Window, cause: str) -> None:
    (state,) = judge(w, Thresholds())
    assert (state.name, state.cause) == ("starved", cause)
    assert state.evidence
    assert state.next_step


def test_a_fast_disk_with_enough_workers_is_not_starvation() -> None:
    points = tuple(replace(p, utilization=0.99, utilization_least=0.9) for p in fed(waiting=0.12))
    busy_disk = replace(QUIET, psi_io=0.30, cpu_iowait=0.17, disk_bytes=8e8)
    assert names(window(points, busy_disk)) == ["working"]


def test_a_job_that_warms_up_is_not_starved() -> None:
    assert names(window(fed(waiting=0.9)[-20:])) == ["working"]


def test_one_lost_gpu_names_the_root_of_its_xids() -> None:
    xids = (
        XidEvent(62, "reset_gpu", "halt", 50.0, 50.0),
        XidEvent(119, "reset_gpu", "rpc", 10.0, 10.0),
    )
    (state,) = judge(window(trace(), health=Health(xids=xids)), Thresholds())
    assert state.evidence.startswith("Xid 62")
    assert "1 more" in state.evidence


def test_a_hung_process_in_the_kernel_says_where_it_waits() -> None:
    stuck = replace(JOB, waiting=1.0, sleeping=0.0, waits=("pid 42 in kernel_clone",))
    (state,) = judge(window(trace(**{**HELD, "work": stuck})), Thresholds())
    assert state.name == "process_hung"
    assert "kernel_clone" in state.evidence


def test_a_hole_in_the_readings_is_never_bridged() -> None:
    """After a suspend of an hour the five minutes begin again."""
    spinning = trace(400, **SPIN)
    before = tuple(replace(p, at=p.at - 3600) for p in spinning[:-6])
    assert names(window((*before, *spinning[-6:]))) == ["working"]


def test_every_state_that_asks_for_action_says_what_to_do() -> None:
    bad = (
        window(trace(**SPIN)), window(trace(**HELD)), window(trace(memory_used_bytes=2e9)),
        window(trace(), health=Health(error=15, error_polls=3)),
        window(trace(), driver=Driver("hung", "nvmlDeviceGetPowerUsage (GPU 0)", 12.0)),
    )  # fmt: skip
    for w in bad:
        (state,) = judge(w, Thresholds())
        assert state.severity in ("warning", "critical")
        assert state.next_step


def test_reading_that_is_switched_off_on_purpose_is_no_warning() -> None:
    (state,) = judge(Window(now=NOW, driver=Driver("off")), Thresholds())
    assert (state.name, state.severity) == ("unknown", "info")


def test_points_that_lie_closer_than_their_length_do_not_end_the_agent() -> None:
    """A late loop catches up: more points than the job's own within the five minutes."""
    crowded = tuple(
        Point(at=NOW - 4.5 * n, utilization_most=0.0, work=JOB if n < 60 else None)
        for n in reversed(range(80))
    )
    assert names(window(crowded)) == ["allocated_idle"]
