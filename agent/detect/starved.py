"""A job that keeps its GPU waiting, and for what.

Causes and their limits: `notes` of measured pipelines in docs/agent.md; pressure on the disk alone
is not starvation (a fast disk with enough workers shows 30 %), so a low utilisation comes first.
"""

from __future__ import annotations

from agent.detect.look import covers, fraction, hosts, job_seconds, last, mean
from agent.detect.state import State
from agent.detect.thresholds import Thresholds
from agent.samples import Window

_STEPS = {
    "memory": "lower the number of workers or the cache, or take a server with more memory",
    "disk": "put the data on local NVMe, pack small files (WebDataset, LMDB), or cache them",
    "cpu": "take a server with more cores, or move decoding off the critical path",
    "workers": "raise the loader's number of workers: cores are free",
    "network": "more parallel reads and prefetch, or copy the data to the server first",
    "launch": "larger batches, CUDA graphs or a compiled model: the main thread is the limit",
    "other": "profile one step: ./ferry has no cause for it from outside",
}


def starved(window: Window, limits: Thresholds) -> State | None:
    """A job past its warm-up whose GPU is busy at times, but for less than 80 %."""
    points = last(window, limits.window_seconds)
    if not covers(window, limits.window_seconds) or job_seconds(window) < limits.warm_up_seconds:
        return None
    used = [p.utilization for p in points]
    most = [p.utilization_most for p in points]
    if None in used or None in most:
        return None
    share = mean(used)
    if share is None or share >= limits.starved_utilization:
        return None
    if max(m for m in most if m is not None) < limits.idle_utilization:
        return None
    cause, evidence = _cause(window, limits)
    return State(
        "starved", f"utilisation {fraction(share)}; {evidence}", _STEPS[cause], cause=cause
    )


def _cause(window: Window, limits: Thresholds) -> tuple[str, str]:
    points = last(window, limits.window_seconds)
    server = hosts(window, limits.window_seconds)
    work = [p.work for p in points if p.work]

    def of(values: object) -> float:
        return mean(values) or 0.0  # type: ignore[arg-type]

    memory, available = of(h.psi_memory for h in server), mean(h.memory_available for h in server)
    faults = of(h.major_faults for h in server)
    if memory >= limits.psi_memory or faults >= limits.major_faults_per_second:
        return "memory", f"memory pressure {fraction(memory)}, {faults:.0f} major faults/s"
    if available is not None and available < limits.available_memory:
        return "memory", f"{fraction(available)} of the memory is available"
    waiting, io = of(w.waiting for w in work), of(h.psi_io for h in server)
    iowait, reads = of(h.cpu_iowait for h in server), of(w.read_bytes for w in work)
    disk = max(reads, of(h.disk_bytes for h in server))
    if (
        waiting >= limits.disk_waiting_share
        or io >= limits.psi_io
        or (iowait >= limits.iowait and disk > 0)
    ):
        return "disk", (
            f"workers wait for the disk {fraction(waiting)} of the time, I/O pressure "
            f"{fraction(io)}, {disk / 1e6:.0f} MB/s"
        )
    running, each = of(w.running for w in work), of(w.worker_cores for w in work)
    idle = mean(h.cpu_idle for h in server)
    workers = max((w.workers for w in work), default=0)
    if workers and running >= limits.cpu_running_share and each >= limits.cpu_worker_cores:
        if idle is not None and idle >= limits.host_idle:
            return (
                "workers",
                f"{workers} workers all busy while {fraction(idle)} of the CPU is idle",
            )
        return "cpu", f"{workers} workers all busy, {fraction(idle)} of the CPU is idle"
    main = of(w.main_cores for w in work)
    if main >= limits.main_thread_cores:
        if workers == 0:
            return "workers", f"no workers, and the main process uses {main:.1f} cores"
        return "launch", f"the main process uses {main:.1f} cores while its workers sleep"
    received, link = of(h.received_bytes for h in server), mean(h.link_bytes for h in server)
    if (
        received >= limits.moving_bytes_per_second
        and each < limits.network_worker_cores
        and io < limits.network_psi_io
    ):
        full = link is not None and link > 0 and received / link >= limits.network_saturated
        kind = "the link is full" if full else "the link is not full, so it is latency"
        return "network", f"{received / 1e6:.0f} MB/s received, {kind}"
    return "other", "no cause to be seen from outside"
