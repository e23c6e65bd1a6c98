"""Records what the agent's reader says of simulated GPUs: `python3 -m tests.support.agent_trace`.

The traces in tests/fixtures/agent were made by it; tests replay them against the rules.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from agent.host import Host
from agent.nvml.supervisor import Limits, Supervisor
from agent.processes import Processes
from gpuferry.paths import REPOSITORY
from gpuferry.simulation import build
from tests.support.simulated import Simulated

FOLDER = REPOSITORY / "tests/fixtures/agent"
Steps = list[tuple[float, Callable[[Simulated], object]]]

COURSES: dict[str, Steps] = {
    "job": [
        (15, lambda gpus: gpus.busy("--gpu", "0", "--seconds", "20", "--util", "95",
                                    "--memory-mib", "8000")),
        (50, lambda gpus: None),
    ],
    "lost": [(8, lambda gpus: gpus.fault("lost", gpu=1)), (16, lambda gpus: gpus.clear()),
             (22, lambda gpus: None)],
    "spinning": [
        (0, lambda gpus: gpus.busy("--gpu", "0", "--seconds", "99", "--memory-mib", "9000")),
        (1, lambda gpus: gpus.set("power=15")),
        (35, lambda gpus: None),
    ],
    "throttled": [
        (0, lambda gpus: gpus.busy("--gpu", "0", "--seconds", "99", "--util", "95")),
        (1, lambda gpus: gpus.fault("throttle", gpu=0, reason="hw-thermal")),
        (25, lambda gpus: None),
    ],
    "leaked": [(1, lambda gpus: gpus.fault("memory-leak", gpu=0, count=4000)),
               (30, lambda gpus: None)],
}  # fmt: skip


def record(name: str) -> None:
    """One course of events, as lines of JSON: seconds and what was read."""
    with tempfile.TemporaryDirectory() as folder, (FOLDER / f"{name}.jsonl").open("w") as out:
        gpus = Simulated(build(), Path(folder)).make("L4")
        os.environ.update(gpus.environment)
        supervisor = Supervisor(1.0, Limits(), print)
        processes, host = Processes(), Host()
        steps, started, point = list(COURSES[name]), time.monotonic(), 5.0
        pids: dict[str, list[int]] = {}
        try:
            while steps:
                now = time.monotonic() - started
                while steps and now >= steps[0][0]:
                    steps.pop(0)[1](gpus)
                supervisor.step(time.monotonic())
                for message in supervisor.messages(0.2):
                    supervisor.heard(message, time.monotonic())
                    for uuid, told in _told(message):
                        if "pids" in told:
                            pids[uuid] = told["pids"]
                    out.write(json.dumps({"t": round(now, 2), "read": message}) + "\n")
                if now >= point:
                    point += 5
                    work = {uuid: asdict(w) for uuid, w in processes.work(pids).items()}
                    found = host.point()
                    line = {"t": round(now, 2), "work": work, "host": found and asdict(found)}
                    out.write(json.dumps(line) + "\n")
        finally:
            supervisor.stop()
            gpus.end()


def _told(message: dict[str, object]) -> list[tuple[str, dict[str, list[int]]]]:
    gpus = message.get("gpus")
    if not isinstance(gpus, dict):
        return []
    return [(uuid, told.get("values", {})) for uuid, told in gpus.items()]


if __name__ == "__main__":
    for course in sys.argv[1:] or COURSES:
        record(course)
