"""A simulated set of GPUs in a temporary folder, and programs that look at it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuferry.simulation import files, kernel_log
from gpuferry.simulation.assign import assign
from gpuferry.simulation.faults import Change, Request, clear, inject
from gpuferry.simulation.moment import Moment
from gpuferry.simulation.scenario import Scenario

DRIVER = "550.163.01"

# Evaluates expressions with pynvml, one a line: "n" is the module, "g" the handles.
_CLIENT = """
import ctypes, json, sys, threading, time
import pynvml as n
g, kept = [], {}

def start():
    n.nvmlInit()
    g[:] = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
    return len(g)

def fields(handle, *ids):
    answers = n.nvmlDeviceGetFieldValues(handle, list(ids))
    return [[a.nvmlReturn, a.value.ullVal if a.valueType == 3 else a.value.uiVal] for a in answers]

def plain(value):
    if isinstance(value, ctypes.Structure):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, (int, float, str, type(None))) else str(type(value))

for line in sys.stdin:
    try:
        answer = {"value": plain(eval(line))}
    except n.NVMLError as error:
        answer = {"error": error.value}
    print(json.dumps(answer), flush=True)
"""


class NvmlError(Exception):
    """pynvml raised; the code is args[0]."""


@dataclass
class Client:
    """A long-running program that uses pynvml."""

    process: subprocess.Popen[str]

    def __call__(self, expression: str) -> Any:
        """Evaluate an expression in it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the client died"
        answer = json.loads(line)
        if "error" in answer:
            raise NvmlError(answer["error"])
        return answer["value"]

    def error(self, expression: str) -> int | None:
        """The NVML error of an expression, None when there is none."""
        try:
            self(expression)
        except NvmlError as error:
            return int(error.args[0])
        return None


@dataclass
class Simulated:
    """Simulated GPUs of one test."""

    built: Path
    folder: Path
    scenario: Scenario = field(init=False)
    clients: list[subprocess.Popen[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "run").mkdir()

    @property
    def environment(self) -> dict[str, str]:
        """For programs that shall see them."""
        return {
            **os.environ,
            "GPUSIM_DIR": str(self.folder),
            "GPUSIM_RUN_DIR": str(self.folder / "run"),
            "LD_LIBRARY_PATH": str(self.built / "lib"),
        }

    def make(self, model: str = "L4", count: int = 2, driver: str = DRIVER) -> Simulated:
        """Install GPUs as the local provider does."""
        made = files.node_files("test", model, count, driver)
        self.put(Scenario.model_validate_json(made.files[files.SOURCE]))
        return self

    def put(self, scenario: Scenario) -> None:
        """Put a scenario in force."""
        self.scenario = scenario
        contents = files.scenario_files(scenario)
        self.write(contents[files.COMPILED])

    def write(self, data: bytes) -> None:
        """Replace the compiled scenario."""
        draft = self.folder / ".draft"
        draft.write_bytes(data)
        draft.replace(self.folder / "scenario")

    def set(self, *assignments: str, gpu: int = 0) -> None:
        """`ferry sim … set`."""
        self.put(assign(self.scenario, [gpu], list(assignments), self.moment()))

    def fault(self, kind: str, **options: Any) -> Change:
        """`ferry sim … fault`."""
        change = inject(self.scenario, Request(kind, **options), self.moment())
        self.put(change.scenario)
        with (self.folder / "run/kmsg").open("a") as log:
            log.writelines(kernel_log.record(m, 0, time.monotonic()) for m in change.messages)
        return change

    def clear(self) -> None:
        """`ferry sim … clear`."""
        self.put(clear(self.scenario, self.moment()))

    def moment(self) -> Moment:
        """Clocks and counters as they are."""
        out = self.run([str(self.built / "bin/gpusim"), "energy"]).stdout
        pairs = [tuple(map(float, line.split())) for line in out.splitlines()]
        return Moment(int(time.time() * 1000), time.monotonic(), [(a, b) for a, b in pairs])

    def run(self, argv: list[str], timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a program that sees the GPUs."""
        return subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, errors="replace",
            check=False, timeout=timeout,
        )  # fmt: skip

    def busy(self, *options: str) -> subprocess.Popen[str]:
        """Start `gpusim busy`."""
        argv = [str(self.built / "bin/gpusim"), "busy", *options]
        self.clients.append(subprocess.Popen(argv, env=self.environment, text=True))
        return self.clients[-1]

    def client(self, *, start: bool = True) -> Client:
        """Start a program with pynvml."""
        process = subprocess.Popen(
            [sys.executable, "-c", _CLIENT], env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.clients.append(process)
        client = Client(process)
        if start:
            client("start()")
        return client

    def end(self) -> None:
        """Stop all programs that were started."""
        for process in self.clients:
            process.kill()
            process.communicate()


def wait_until(what: str, condition: Callable[[], Any], seconds: float = 10) -> Any:
    """Wait for a condition; return its value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {seconds} s for: {what}"
        time.sleep(0.02)
