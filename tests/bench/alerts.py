"""From a fault to the webhook: a server with two simulated L4 that watches itself, as shipped."""

from __future__ import annotations

from gpuferry.simulation.faults import Request
from tests.support.monitored import MONITORED, ROLES, change, make_healthy, wait_for_silence
from tests.support.node import Node, NodeMaker
from tests.support.simulated import wait_until
from tests.support.webhook import Webhook

FAULTS = {
    "hung driver": ("GpuDriverHung", Request("hang", function="nvmlDeviceGetPowerUsage")),
    "lost GPU": ("GpuFault", Request("lost", gpu=1)),
}


def _converged(maker: NodeMaker) -> tuple[Node, Webhook]:
    node = maker(name="gpu-1", gpu_model="L4", gpu_count=2)
    node.play("nvidia_driver", nvidia_driver_wish={"gpus": 2})
    hook = Webhook(node)
    node.play(*ROLES, **MONITORED)
    return node, hook


def measure(maker: NodeMaker) -> dict[str, list[float]]:
    """Seconds from the change of the simulated GPUs to the message, by fault; each once.

    Once: a fault that comes again before the message that it was over is no news to Alertmanager.
    """
    node, hook = _converged(maker)
    hook.wait("Watchdog", seconds=120)
    found: dict[str, list[float]] = {}
    for name, (alert, request) in FAULTS.items():
        wait_until("an agent that sees", lambda: _sees(node), 60)
        wait_for_silence(node, 300)
        hook.from_now()
        change(node, request)
        found[name] = [hook.wait(alert, seconds=60).at - hook.since]
        make_healthy(node)
    return found


def _sees(node: Node) -> bool:
    ask = "python3 -I /usr/local/lib/gpuferry/agent/start.py ask /metrics || true"
    return node.run(ask).count("\ngpu_power_watts{") == 2
