"""A server that watches itself: what it is given, what goes wrong on it, and who is told."""

from __future__ import annotations

import time
from typing import Any

import yaml

from gpuferry.monitoring import AGENT_PORT, RULES
from gpuferry.operate import simulation
from gpuferry.simulation.assign import assign
from gpuferry.simulation.faults import Change, Request, clear, inject
from gpuferry.simulation.moment import Moment
from gpuferry.simulation.scenario import Scenario
from tests.support.node import Node
from tests.support.webhook import URL, Webhook, firing

# Small file systems, which tests can fill. Something may hang on the last one.
MOUNTS = ["/small", "/low", "/inodes", "/stuck"]
# Rules are evaluated every five seconds at most.
_QUIET_LOOKS = 6
ROLES = ("secrets", "agent", "monitoring")
TOKEN = "what-the-agents-are-asked-with"
SECRETS = [
    {"name": "gpuferry-scrape-token", "value": TOKEN, "uid": 0},
    {"name": "pager", "value": "a-pagers-token", "uid": 0},
]
MONITORED: dict[str, Any] = {
    "monitoring_enabled": True,
    "monitoring_server": "gpu-1",
    "monitoring_targets": [{"server": "gpu-1", "address": f"127.0.0.1:{AGENT_PORT}"}],
    "monitoring_receivers": {"webhook": {"url": URL}},
    "monitoring_dead_man": {"url": f"{URL}dead-man", "token_secret": "pager"},
    "monitoring_secrets": [{"name": "pager", "version": "1"}],
    "monitoring_scrape_token": "1",
    "agent_scrape_token": "1",
    "agent_expected_gpus": 2,
    "secrets_files": SECRETS,
}


def quick() -> dict[str, Any]:
    """What lasts minutes as shipped lasts seconds; promtool judges the durations as shipped."""
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    durations = {
        rule["alert"]: {
            # A busy machine may miss a scrape. What is told at once as shipped is told at once.
            **({"for": "8s" if rule["alert"] == "AgentDown" else "1s"} if "for" in rule else {}),
            "keep_firing_for": "1s",
        }
        for group in rules
        for rule in group["rules"]
    }
    thresholds = {
        "window_seconds": 10, "leaked_seconds": 10, "hung_seconds": 30, "warm_up_seconds": 10,
        "throttle_hardware_seconds": 10, "hot_seconds": 10, "xid_seconds": 25,
        # Others use this machine's disks and network, too.
        "moving_bytes_per_second": 1e12,
    }  # fmt: skip
    return {
        **MONITORED,
        "monitoring_alerts": durations,
        "agent_thresholds": thresholds,
        "agent_mounts": MOUNTS,
    }


def change(node: Node, *requests: Request) -> None:
    """Inject faults, as `ferry sim NAME fault` does."""
    for request in requests:

        def decide(scenario: Scenario, moment: Moment, wanted: Request = request) -> Change:
            return inject(scenario, wanted, moment)

        simulation.change(node.session, node.server, decide)


def set_readings(node: Node, gpu: int, *assignments: str) -> None:
    """As `ferry sim NAME set` does."""
    simulation.change(
        node.session, node.server, lambda s, m: Change(assign(s, [gpu], list(assignments), m))
    )


def make_healthy(node: Node) -> None:
    """Without work and faults, an empty kernel log and empty small file systems."""
    node.run("systemctl stop 'work*'; rm -rf /run/gpusim/kmsg /small/* /low/* /inodes/*")
    simulation.change(node.session, node.server, lambda s, m: Change(clear(s, m)))


def busy(node: Node, gpu: int, utilisation: int) -> None:
    """A process that keeps a GPU busy, so much of the time (percent)."""
    node.run(
        f"systemd-run -q --collect --unit=work{gpu} /opt/gpusim/bin/gpusim busy "
        f"--gpu {gpu} --seconds 300 --util {utilisation}"
    )


def wait_for_all(hook: Webhook, status: str, wanted: set[tuple[str, str]], seconds: float) -> None:
    """Until all of them came: alerts by name and index of the GPU or mount."""
    deadline = time.monotonic() + seconds
    while missing := wanted - {
        (t.labels["alertname"], t.labels.get("index", t.labels.get("mount", "")))
        for t in hook.told()
        if t.status == status
    }:
        if time.monotonic() > deadline:
            came = sorted({(t.labels["alertname"], t.status) for t in hook.told()})
            raise AssertionError(f"{seconds} s, and not {status}: {missing}; came: {came}")
        time.sleep(0.5)


def wait_for_silence(node: Node, seconds: float = 180) -> None:
    """Until nothing fires but what always does, and has not for longer than rules take."""
    deadline, quiet = time.monotonic() + seconds, 0
    while quiet < _QUIET_LOOKS:
        found = firing(node)
        quiet = quiet + 1 if found == {"Watchdog"} else 0
        assert time.monotonic() < deadline, f"{seconds} s, and still: {found}"
        time.sleep(1)
