"""A real receiver of Alertmanager's webhooks on a node, which writes down what came and when."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from tests.support.node import Node
from tests.support.simulated import wait_until

PORT = 9799
URL = f"http://127.0.0.1:{PORT}/"
_LOG = "/run/webhook.jsonl"
_REFUSES = "/run/webhook-refuses"
_PROGRAM = f'''
import http.server, json, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        entry = {{"at": time.time(), "path": self.path,
                 "authorization": self.headers.get("Authorization", ""), "body": body}}
        refuses = os.path.exists("{_REFUSES}")
        if not refuses:
            with open("{_LOG}", "a") as log:
                log.write(json.dumps(entry) + "\\n")
        # Refused for good: what is said with 5xx is tried again.
        self.send_response(400 if refuses else 200)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", {PORT}), Handler).serve_forever()
'''


def firing(node: Node) -> set[str]:
    """Names of what Alertmanager knows now; none while it does not answer."""
    ask = "amtool --alertmanager.url=http://127.0.0.1:9753 -o json alert query"
    told = node.run(f"{ask} 2>/dev/null || echo '[]'")
    return {alert["labels"]["alertname"] for alert in json.loads(told)}


@dataclass(frozen=True)
class Told:
    """One alert of one message."""

    at: float
    path: str
    authorization: str
    status: str
    labels: dict[str, str]
    annotations: dict[str, str]


@dataclass
class Webhook:
    """Started with the object."""

    node: Node
    since: float = field(default=0.0)

    def __post_init__(self) -> None:
        self.node.run(f": > {_LOG}")
        self.node.start_program("webhook", _PROGRAM)

    def told(self) -> list[Told]:
        """All alerts that came since `since`, in order."""
        lines = [json.loads(line) for line in self.node.run(f"cat {_LOG}").splitlines()]
        return [
            Told(
                line["at"],
                line["path"],
                line["authorization"],
                alert["status"],
                alert["labels"],
                alert["annotations"],
            )
            for line in lines
            for alert in line["body"]["alerts"]
            if line["at"] >= self.since
        ]

    def find(self, name: str, status: str = "firing", **labels: str) -> list[Told]:
        """Those of a name, status and labels."""
        return [
            t
            for t in self.told()
            if t.labels["alertname"] == name
            and t.status == status
            and labels.items() <= t.labels.items()
        ]

    def wait(self, name: str, status: str = "firing", seconds: float = 30, **labels: Any) -> Told:
        """The first such alert, which comes in time."""
        wait_until(f"{name} {status}", lambda: self.find(name, status, **labels), seconds)
        return self.find(name, status, **labels)[0]

    def refuse(self) -> None:
        """Take nothing until `take_again`."""
        self.node.run(f"touch {_REFUSES}")

    def take_again(self) -> None:
        """Take what comes."""
        self.node.run(f"rm -f {_REFUSES}")

    def from_now(self) -> float:
        """Forget what came before; returns the time on the node."""
        self.since = float(self.node.run("date +%s.%N"))
        return time.monotonic()
