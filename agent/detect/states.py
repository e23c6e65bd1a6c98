"""What a GPU does, and what is wrong with it: a window and thresholds in, states out.

Pure functions. The first rule that holds names what the GPU does; others are told beside it.
Whatever is not known never becomes "idle".
"""

from __future__ import annotations

from agent.detect import beside, fault
from agent.detect.look import (
    covers,
    fraction,
    held_seconds,
    job_seconds,
    known,
    last,
    mean,
    moving,
    stalled,
)
from agent.detect.starved import starved
from agent.detect.state import State
from agent.detect.thresholds import Thresholds
from agent.samples import Window

_PY_SPY = "look where it waits: py-spy dump --pid PID, or dmesg for a kernel wait; then restart it"


def judge(window: Window, limits: Thresholds) -> list[State]:
    """The state of one GPU, and what is to be told beside it.

    Returns at least one state; the first says what the GPU does.
    """
    if state := fault.driver(window) or fault.gpu(window, limits):
        return [state]
    return [_work(window, limits), *beside.states(window, limits)]


def _work(window: Window, limits: Thresholds) -> State:
    points = last(window, limits.window_seconds)
    if not points:
        return State("unknown", "no readings in the last minute", "wait, or see /state and the log")
    now = points[-1]
    if now.work is None:
        return _without_processes(window, limits)
    if not now.work.pids:
        return _nobody(window, limits)
    for rule in (_collective_hung, _process_hung, starved):
        if state := rule(window, limits):
            return state
    busiest = max(known(p.utilization_most for p in points), default=None)
    if busiest is None:
        return State("unknown", "processes, but no utilisation", "none: the GPU does not tell")
    if busiest >= limits.idle_utilization:
        return State("working", f"utilisation {fraction(mean(p.utilization for p in points))}")
    return _waiting(window, limits)


def _without_processes(window: Window, limits: Thresholds) -> State:
    """The driver does not say who uses the GPU: busy can be seen, idle cannot."""
    used = mean(p.utilization for p in last(window, limits.window_seconds))
    if used is not None and used >= limits.idle_utilization:
        return State("working", f"utilisation {fraction(used)}, processes not known")
    return State("unknown", "the driver does not list processes", "see gpu_field_unavailable")


def _nobody(window: Window, limits: Thresholds) -> State:
    """No living process is listed."""
    points = last(window, limits.window_seconds)
    now, work = points[-1], points[-1].work
    assert work is not None
    held = now.memory_used_bytes
    if held is None:
        return State("unknown", "memory in use is not known", "see gpu_field_unavailable")
    zombie = held_seconds(window, lambda p: bool(p.work and p.work.zombies))
    ghost = held_seconds(window, lambda p: bool(p.work and not p.work.pids and p.work.absent))
    memory = held_seconds(
        window,
        lambda p: (
            bool(p.work and not p.work.pids)
            and (p.memory_used_bytes or 0) > limits.leaked_memory_bytes
            # What computes is somebody's, listed or not.
            and (p.utilization_most or 0) < limits.idle_utilization
        ),
    )
    if (
        zombie >= limits.zombie_seconds
        or max(memory, 0 if work.zombies else ghost) >= limits.leaked_seconds
    ):
        who = [f"pid {pid} is a zombie" for pid in work.zombies]
        who += [f"pid {pid} is gone" for pid in work.absent]
        return State(
            "leaked_memory",
            f"{held / 2**20:.0f} MiB in use for {max(memory, ghost, zombie):.0f} s by no living "
            f"process{': ' if who else ''}{', '.join(who)}",
            "end the parent of zombies, or reset the GPU when nothing runs: nvidia-smi --gpu-reset",
        )
    most = [p.utilization_most for p in points]
    busiest = max(known(most), default=None)
    if busiest is not None and busiest >= limits.idle_utilization:
        return State("working", f"utilisation up to {fraction(busiest)} within the last minute")
    if held > limits.leaked_memory_bytes or work.absent or work.zombies:
        return State("unknown", f"{held / 2**20:.0f} MiB in use by no living process yet", "wait")
    if any(p.work is None or p.work.pids for p in points):
        why = "a process was there, or may have been, within the last minute"
        return State("unknown", why, "wait a minute", "info")
    if None in most or not covers(window, limits.window_seconds):
        return State("unknown", "utilisation is not known for the whole window", "wait a minute")
    return State("idle", f"no process, utilisation at most {fraction(busiest)}", "", "info")


def _collective_hung(window: Window, limits: Thresholds) -> State | None:
    """All kernels spin: the counter is full, the power is low, nothing advances."""
    still = stalled(window, limits)
    # Progress beats the heuristic both ways: with it, any power will do.
    if still is not False and _spinning(window, limits, any_power=bool(still)):
        points = last(window, limits.hung_seconds)
        told = "no progress" if still else "no progress file, so judged by power alone"
        return State(
            "collective_hung",
            f"utilisation {fraction(mean(p.utilization for p in points))} at "
            f"{fraction(mean(p.power_ratio for p in points))} of the power limit for "
            f"{limits.hung_seconds:.0f} s; {told}",
            "look at the other ranks: the one that is at 0 % or missing holds them up; restart the "
            "job from its checkpoint",
            "critical",
        )
    return None


def _spinning(window: Window, limits: Thresholds, *, any_power: bool) -> bool:
    points = last(window, limits.hung_seconds)
    return covers(window, limits.hung_seconds) and all(
        (p.utilization_least or 0) >= limits.hung_utilization
        and (any_power or (p.power_ratio is not None and p.power_ratio <= limits.hung_power_ratio))
        and p.work is not None
        and bool(p.work.pids)
        for p in points
    )


def _process_hung(window: Window, limits: Thresholds) -> State | None:
    """A process holds the GPU and neither computes, reads nor advances."""
    points = last(window, limits.hung_seconds)
    if not covers(window, limits.hung_seconds) or job_seconds(window) < limits.hung_seconds:
        return None
    for p in points:
        if (
            p.work is None
            or p.utilization_most is None
            or p.utilization_most >= limits.idle_utilization
        ):
            return None
        if p.work.cores is None or p.work.cores >= limits.hung_cores:
            return None
    if moving(window, limits.hung_seconds, limits) is not False:
        return None
    if stalled(window, limits) is False:
        return None
    work = points[-1].work
    assert work is not None
    stuck = mean(float(bool(p.work and p.work.waits)) for p in points) or 0
    where = (
        f"waits in the kernel ({', '.join(work.waits)})"
        if stuck >= 0.5
        else "sleeps in user space, as a deadlock does"
    )
    return State(
        "process_hung",
        f"pid {', '.join(map(str, work.pids))} {where}; no GPU work, no CPU time and no reads for "
        f"{limits.hung_seconds:.0f} s",
        _PY_SPY.replace("PID", str(work.pids[0])),
        "critical",
    )


def _waiting(window: Window, limits: Thresholds) -> State:
    """Processes hold the GPU and do not use it."""
    points = last(window, limits.window_seconds)
    cores = mean(p.work.cores for p in points if p.work)
    if cores is None:
        return State("unknown", "the CPU time of its processes is not known", "wait")
    if cores >= limits.cpu_phase_cores:
        return State("cpu_phase", f"{cores:.1f} cores busy, GPU not used", "", "info")
    if moving(window, limits.window_seconds, limits):
        return State("cpu_phase", "data is being moved, GPU not used", "", "info")
    return State(
        "allocated_idle",
        f"a process holds the GPU and uses {cores:.2f} cores",
        "stop it if nobody needs it: an allocated GPU costs as much as a busy one",
        "info",
    )
