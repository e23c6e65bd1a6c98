"""Prometheus' text format of what the observer knows.

SI units; identity only in `gpu_info`; what is not known is absent. No label holds a command line, a
process or anything that a user wrote.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent import VERSION, accounting
from agent.detect.beside import REASONS
from agent.detect.look import known
from agent.disks import Disks
from agent.observer import Observer

# Reading, metric, help.
_GAUGES = (
    ("utilization", "gpu_utilization_ratio", "Share of the last sample in which a kernel ran"),
    ("memory_activity", "gpu_memory_activity_ratio", "Share in which memory was read or written"),
    ("power_watts", "gpu_power_watts", "Power"),
    ("power_limit_watts", "gpu_power_limit_watts", "Enforced power limit"),
    ("temperature_celsius", "gpu_temperature_celsius", "Temperature of the GPU"),
    ("slowdown_celsius", "gpu_temperature_slowdown_celsius", "Temperature at which it slows down"),
    ("memory_used_bytes", "gpu_memory_used_bytes", "Memory in use, without the driver's own"),
    ("memory_total_bytes", "gpu_memory_total_bytes", "Memory"),
    ("pcie_generation", "gpu_pcie_generation", "Generation of the link as it is now"),
    ("pcie_width", "gpu_pcie_width", "Lanes of the link as it is now"),
    ("remap_pending", "gpu_memory_remap_pending", "1: rows wait for a reset to be remapped"),
    ("remap_failed", "gpu_memory_remap_failed", "1: a row could not be remapped"),
)
_LABELLED = (
    ("gpu_clock_hertz", "Clock", "clock", (("sm", "sm_hertz"), ("memory", "memory_hertz"))),
    (
        "gpu_memory_remapped_rows",
        "Remapped rows",
        "cause",
        (("correctable", "remapped_correctable"), ("uncorrectable", "remapped_uncorrectable")),
    ),
)
_ECC = (("corrected", "ecc_corrected"), ("uncorrected", "ecc_uncorrected"))


@dataclass
class Own:
    """The agent's figures about itself."""

    started: float
    child_starts: int = 0
    child_silent: float = 0.0
    child_pid: int | None = None
    abandoned: int = 0
    log_lost: int = 0
    scrapes: int = 0
    unsaved: int = 0
    cpu_seconds: float = 0.0


class Exposition(Collector):
    """Collects under the observer's lock."""

    def __init__(self, observer: Observer, disks: Disks, own: Own, clock: Any) -> None:
        self._observer, self._disks, self._own, self._clock = observer, disks, own, clock
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """The whole page."""
        with self._observer.lock:
            self._own.scrapes += 1
            return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Nothing is known before the first scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families."""
        now = self._clock()
        yield from self._readings(now)
        yield from self._judgement(now)
        yield from self._accounts()
        yield from self._xids()
        yield from self._mounts()
        yield from self._self(now)

    def _readings(self, now: float) -> Iterator[Metric]:
        gpus = self._observer.gpus.values()
        ok = self._observer.driver.status == "ok"
        info = GaugeMetricFamily(
            "gpu_info", "Identity", labels=["uuid", "index", "name", "pci", "driver"]
        )
        up = GaugeMetricFamily("gpu_up", "1: the GPU answers", labels=["uuid"])
        for gpu in gpus:
            driver = self._observer.driver_version
            info.add_metric([gpu.uuid, str(gpu.index), gpu.name, gpu.pci, driver], 1)
            answers = ok and gpu.seen and gpu.error is None and gpu.sampled_at is not None
            up.add_metric([gpu.uuid], float(answers))
        yield info
        yield up

        def told(reading: str) -> Iterator[tuple[str, float]]:
            for gpu in gpus:
                value = gpu.value(reading, now) if ok else None
                if value is not None:
                    yield gpu.uuid, float(value)

        for reading, name, text in _GAUGES:
            yield _family(name, text, ["uuid"], (([uuid], v) for uuid, v in told(reading)))
        for name, text, label, parts in _LABELLED:
            rows = (([u, part], v) for part, reading in parts for u, v in told(reading))
            yield _family(name, text, ["uuid", label], rows)
        ecc = CounterMetricFamily(
            "gpu_memory_errors", "ECC errors since the driver was loaded", labels=["uuid", "kind"]
        )
        for kind, reading in _ECC:
            for uuid, value in told(reading):
                ecc.add_metric([uuid, kind], value)
        yield ecc
        replays = CounterMetricFamily("gpu_pcie_replays", "Replays of the link", labels=["uuid"])
        for uuid, value in told("pcie_replays"):
            replays.add_metric([uuid], value)
        yield replays
        masks = [(uuid, int(value)) for uuid, value in told("clock_events")]
        events = (
            ([uuid, name], float(bool(mask & bit)))
            for uuid, mask in masks
            for bit, name in REASONS.items()
        )
        text = "1: the clock is held down for this reason"
        yield _family("gpu_clock_event", text, ["uuid", "reason"], events)
        pids = ((gpu.uuid, gpu.value("pids", now) if ok else None) for gpu in gpus)
        counts = (([uuid], float(len(found))) for uuid, found in pids if found is not None)
        yield _family("gpu_processes", "Processes that compute or draw on it", ["uuid"], counts)
        missing = (
            ([gpu.uuid, field, reason], 1.0)
            for gpu in gpus
            for field, reason in gpu.unavailable.items()
        )
        yield _family(
            "gpu_field_unavailable",
            "Readings without a value",
            ["uuid", "field", "reason"],
            missing,
        )

    def _judgement(self, now: float) -> Iterator[Metric]:
        labels = ["uuid", "state", "cause", "severity"]
        states = (
            ([uuid, state.name, state.cause, state.severity], 1.0)
            for uuid, found in self._observer.states.items()
            for state in found
        )
        yield _family("gpu_state", "What it does, and what is wrong", labels, states)
        rows: list[tuple[list[str], float]] = []
        for gpu in self._observer.gpus.values():
            if self._observer.driver.status != "ok" or gpu.error is not None or not gpu.seen:
                continue
            points = [point for point in gpu.points if point.at > now - 60]
            if means := known(point.utilization for point in points):
                rows.append(([gpu.uuid, "mean"], sum(means) / len(means)))
            if leasts := known(point.utilization_least for point in points):
                rows.append(([gpu.uuid, "least"], min(leasts)))
        yield _family(
            "gpu_utilization_minute_ratio",
            "Utilisation of the last minute: its mean, and the least of all samples",
            ["uuid", "of"],
            rows,
        )

    def _accounts(self) -> Iterator[Metric]:
        seconds = CounterMetricFamily(
            "gpu_use_seconds",
            "Time by use; the uses of a GPU add up to the time since its account began",
            labels=["uuid", "use"],
        )
        joules = CounterMetricFamily("gpu_energy_joules", "Energy by its counter", labels=["uuid"])
        resets = CounterMetricFamily(
            "gpu_energy_counter_resets", "Times that counter began again", labels=["uuid"]
        )
        for uuid, account in self._observer.accounts.items():
            for use, value in accounting.uses(account).items():
                seconds.add_metric([uuid, use], value)
            if account.counter is not None:
                joules.add_metric([uuid], account.joules)
                resets.add_metric([uuid], account.resets)
        yield seconds
        yield joules
        yield resets

    def _xids(self) -> Iterator[Metric]:
        labels = ["uuid", "pci", "xid"]
        # A lost GPU cannot be asked where it is: from when it could.
        uuids = {gpu.pci: gpu.uuid for gpu in self._observer.gpus.values()}
        total = CounterMetricFamily(
            "gpu_xid", "Xids since the agent first ran", labels=["uuid", "pci", "xid"]
        )
        times = GaugeMetricFamily(
            "gpu_xid_last_timestamp_seconds", "When the last one came", labels=labels
        )
        for key, count in self._observer.book.counts.items():
            pci, code = key.split(" ")
            values = [uuids.get(pci, ""), pci, code]
            total.add_metric(values, count)
            times.add_metric(values, self._observer.book.clocks[key])
        yield total
        yield times

    def _mounts(self) -> Iterator[Metric]:
        stuck = self._disks.stuck()
        spaces = dict(self._disks.spaces)
        families: tuple[tuple[str, str, Any], ...] = (
            ("size_bytes", "Size", lambda s: s.size),
            ("free_bytes", "Free for others than root", lambda s: s.free),
            ("inodes_free_ratio", "Share of inodes that is free", lambda s: s.inodes_free),
        )
        for name, text, of in families:
            rows = (([m], float(of(s))) for m, s in spaces.items() if of(s) is not None)
            yield _family(f"node_agent_disk_{name}", text, ["mount"], rows)
        rows = (([m], float(m in stuck)) for m in sorted({*spaces, *stuck}))
        yield _family("node_agent_disk_stuck", "1: it does not answer", ["mount"], rows)

    def _self(self, now: float) -> Iterator[Metric]:
        observer, own = self._observer, self._own
        simulated = any("(simulated)" in gpu.name for gpu in observer.gpus.values())
        yield _family(
            "node_agent_info",
            "The agent; simulated: its GPUs are not real",
            ["version", "simulated"],
            [([VERSION, str(simulated).lower()], 1.0)],
        )
        yield _family(
            "node_agent_driver",
            "State of the driver: ok, starting, hung, failed, off",
            ["status"],
            [([observer.driver.status], 1.0)],
        )
        yield _gauge("node_agent_gpus_expected", "GPUs that should be there", observer.expected)
        if observer.visible is not None:
            yield _gauge("node_agent_gpus_visible", "GPUs that the driver shows", observer.visible)
        if observer.sampled_at is not None:
            age = now - observer.sampled_at
            yield _gauge("node_agent_snapshot_age_seconds", "Age of the readings", age)
        if observer.cycle_seconds is not None:
            yield _gauge(
                "node_agent_cycle_seconds", "How long the last cycle took", observer.cycle_seconds
            )
        yield _gauge("node_agent_reader_silent_seconds", "Silence of the reader", own.child_silent)
        yield _gauge("node_agent_readers_abandoned", "Readers stuck in the driver", own.abandoned)
        yield _counter("node_agent_reader_starts", "Starts of the reader", own.child_starts)
        yield _counter("node_agent_kernel_log_lost", "Holes in the kernel's log", own.log_lost)
        yield _counter("node_agent_scrapes", "Scrapes answered", own.scrapes)
        yield _counter("node_agent_state_unsaved", "Times the state was not saved", own.unsaved)
        yield _gauge("node_agent_start_timestamp_seconds", "When it started", own.started)
        cpu = _cpu_seconds("self") + (_cpu_seconds(str(own.child_pid)) if own.child_pid else 0.0)
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu += reaped.ru_utime + reaped.ru_stime
        # A reader that is given up takes its time along.
        own.cpu_seconds = max(own.cpu_seconds, cpu)
        text = "Processor time, its reader included"
        yield _counter("node_agent_cpu_seconds", text, own.cpu_seconds)
        resident = sum(_resident(p) for p in ("self", str(own.child_pid or "")) if p)
        yield _gauge("node_agent_resident_bytes", "Memory, its reader included", resident)


def _family(name: str, text: str, labels: list[str], rows: Any) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _cpu_seconds(pid: str) -> float:
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            words = handle.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / 100


def _resident(pid: str) -> float:
    try:
        with open(f"/proc/{pid}/statm", "rb") as handle:
            return float(int(handle.read().split()[1]) * resource.getpagesize())
    except OSError:
        return 0.0
