"""The node agent as a process of its own, on simulated GPUs of this machine."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from gpuferry.paths import REPOSITORY
from gpuferry.simulation.compiled import gpu_uuid
from tests.support.simulated import Simulated, wait_until

_START = (
    "import sys; sys.path.insert(0, {root!r}); import agent.run, pathlib; "
    "agent.run.CATALOGUE = pathlib.Path({xid!r}); "
    "from agent.__main__ import main; sys.exit(main(sys.argv[1:]))"
)

# A window of ten seconds, so that a test does not last minutes.
QUICK = {
    "thresholds": {
        "window_seconds": 10, "leaked_seconds": 10, "hung_seconds": 15, "warm_up_seconds": 10,
        "throttle_hardware_seconds": 10, "hot_seconds": 10,
        # Others use this machine's disks and network, too.
        "moving_bytes_per_second": 1e12,
    }
}  # fmt: skip
ZERO, ONE = gpu_uuid("test", 0), gpu_uuid("test", 1)


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, labels and value of every series."""
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, dict(sample.labels), sample.value


class RunningAgent:
    """Started at once; `config` is added to its configuration."""

    def __init__(self, gpus: Simulated, **config: Any) -> None:
        self.gpus, self.port = gpus, free_port()
        folder = gpus.folder
        self.state_file = folder / "agent-state.json"
        xid = folder / "xid.json"
        rules = REPOSITORY / "gpuferry/driver/rules/xid.yaml"
        xid.write_text(json.dumps(yaml.safe_load(rules.read_text())))
        made = {
            "port": self.port,
            "state_file": str(self.state_file),
            "rollup_folder": str(folder),
            "kernel_logs": [str(folder / "run/kmsg")],
            "progress_folder": str(folder / "progress"),
            **config,
        }
        self._config = folder / "agent.json"
        self._config.write_text(json.dumps(made))
        self._code = _START.format(root=str(REPOSITORY), xid=str(xid))
        self.log = folder / "agent.log"
        self.start()

    def start(self) -> None:
        """Start it, also again."""
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-c", self._code, str(self._config)],
                env=self.gpus.environment, stderr=log,
            )  # fmt: skip
        self.gpus.clients.append(self.process)
        wait_until("the agent listens", self.listens, 20)

    def listens(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            self.get("/healthy")
        except OSError:
            return False
        return True

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.terminate()
        return self.process.wait(15)

    def get(self, path: str, token: str = "") -> str:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return str(answer.read().decode())

    def metrics(self, name: str = "", **labels: str) -> list[tuple[dict[str, str], float]]:
        """Series of a name that have these labels."""
        return [
            (found, value)
            for own, found, value in samples(self.get("/metrics"))
            if own == name and labels.items() <= found.items()
        ]

    def value(self, name: str, **labels: str) -> float | None:
        """The value of the only such series; None where there is none."""
        found = self.metrics(name, **labels)
        assert len(found) <= 1, found
        return found[0][1] if found else None

    def states(self) -> dict[int, list[str]]:
        """State names by GPU index."""
        told = json.loads(self.get("/state"))
        return {gpu["index"]: [s["name"] for s in gpu["states"]] for gpu in told["gpus"]}

    def children(self) -> list[int]:
        """Pids of its readers."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(word) for word in path.read_text().split()]

    def wait_for(self, index: int, state: str, seconds: float = 20) -> float:
        """Wait until a GPU is in a state; returns how long that took."""
        started = time.monotonic()
        wait_until(f"GPU {index} {state}", lambda: state in self.states().get(index, []), seconds)
        return time.monotonic() - started


def refused(agent: RunningAgent, path: str, token: str = "") -> int:
    """The status code of an answer that is a refusal."""
    try:
        agent.get(path, token)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    return 200
