"""The node agent on real servers with two simulated L4: faults come, its answers are watched."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpuferry.checking import run_checks
from gpuferry.errors import StepFailed
from gpuferry.operate import simulation
from gpuferry.simulation.faults import Change, Request, clear, inject
from gpuferry.verdict import Verdict
from tests.support.agent import samples
from tests.support.node import Node, NodeMaker
from tests.support.simulated import wait_until

GPUS = {"agent_expected_gpus": 2}
QUICK = {
    **GPUS,
    "agent_thresholds": {
        "window_seconds": 10, "leaked_seconds": 10, "throttle_hardware_seconds": 10,
    },
}  # fmt: skip
# Waits for an agent that is just starting.
ASK = """python3 -I - <<'END'
import time, urllib.error, urllib.request
for attempt in range(100):
    try:
        token = open("/var/lib/gpuferry-agent/token").read().strip()
        request = urllib.request.Request("http://127.0.0.1:9750{}",
                                         headers={{"Authorization": f"Bearer {{token}}"}})
        print(urllib.request.urlopen(request, timeout=10).read().decode())
        break
    except (urllib.error.URLError, FileNotFoundError):
        if attempt == 99:
            raise
        time.sleep(0.1)
END"""


def ask(node: Node, path: str) -> str:
    return node.run(ASK.format(path))


def states(node: Node) -> dict[int, list[str]]:
    told = json.loads(ask(node, "/state"))
    return {gpu["index"]: [s["name"] for s in gpu["states"]] for gpu in told["gpus"]}


def value(node: Node, name: str, **labels: str) -> list[float]:
    return [v for own, found, v in samples(ask(node, "/metrics"))
            if own == name and labels.items() <= found.items()]  # fmt: skip


def wait_for(node: Node, index: int, state: str, seconds: float = 30) -> float:
    started = time.monotonic()
    wait_until(f"GPU {index} {state}", lambda: state in states(node).get(index, []), seconds)
    return time.monotonic() - started


def verdicts(node: Node) -> dict[str, Verdict]:
    expected = {
        "hostname": node.server.name, "user": node.server.user, "roles": ["agent"],
        "kind": "container", "gpu": {"model": "L4", "count": 2},
    }  # fmt: skip
    found = run_checks([node.server], {node.server.name: expected}, select=["agent"])
    return {v.id: v for v in found if v.id.startswith("agent.")}


def change(node: Node, request: Request) -> None:
    simulation.change(node.session, node.server, lambda s, m: inject(s, request, m))


@pytest.fixture(scope="module")
def node(image: str, new_node: NodeMaker) -> Node:
    node = new_node(image, name="gpu-1", gpu_model="L4", gpu_count=2)
    node.play("nvidia_driver", nvidia_driver_wish={"gpus": 2})
    return node


@pytest.fixture
def faulty(node: Node) -> Iterator[Node]:
    """Afterwards all is healthy again."""
    yield node
    node.run("rm -f /run/gpusim/kmsg")
    simulation.change(node.session, node.server, lambda s, m: Change(clear(s, m)))
    wait_until("a healthy driver", lambda: value(node, "node_agent_driver", status="ok"), 60)


def test_without_the_role_the_checks_fail(node: Node) -> None:
    assert {v.status for v in verdicts(node).values()} == {"fail"}


def test_an_address_for_everybody_is_refused_before_anything_is_done(node: Node) -> None:
    with pytest.raises(StepFailed, match=r"agent_listen is 0\.0\.0\.0"):
        node.play("agent", agent_listen="0.0.0.0")
    node.run("test ! -e /etc/gpuferry/agent.json")


def test_it_changes_once(node: Node) -> None:
    assert node.play("agent", check_only=True, **QUICK).changed(node.server.name) > 0
    node.run("test ! -e /etc/gpuferry/agent.json")
    assert node.changed("agent", **QUICK) > 0
    assert node.changed("agent", **QUICK) == 0
    wait_until("readings", lambda: value(node, "gpu_power_watts"), 20)
    found = verdicts(node)
    assert {v.status for v in found.values()} == {"pass"}, found
    assert len(found) == 3


def test_it_runs_as_its_own_user_in_a_sandbox(node: Node) -> None:
    users = node.run("ps -o user:32= -p $(systemctl show -P MainPID gpuferry-agent)")
    assert users.strip() == "gpuferry-agent"
    said = node.run("systemd-analyze security --no-pager gpuferry-agent.service | tail -1")
    score = float(re.findall(r": (\d+\.\d+)", said)[0])
    assert score <= 2.5, said
    assert node.run("stat -c '%a %U' /var/lib/gpuferry-agent /var/lib/gpuferry-agent/token") == (
        "700 gpuferry-agent\n600 gpuferry-agent\n"
    )


def test_it_is_not_reached_from_outside(node: Node) -> None:
    listening = node.run("ss -Hltn 'sport = :9750'").split()
    assert listening[3] == "127.0.0.1:9750"
    with pytest.raises(OSError, match=r"refused|timed out"):
        socket.create_connection((node.server.address, 9750), timeout=3)


def test_a_busy_process_is_seen(node: Node) -> None:
    node.run("systemd-run -q --collect --unit=work "
             "/opt/gpusim/bin/gpusim busy --gpu 0 --seconds 300 --util 90")  # fmt: skip
    try:
        wait_for(node, 0, "working")
        wait_for(node, 1, "idle")
        # The first sample may be of a second in which it had only begun.
        wait_until("its load", lambda: 0.8 < max(value(node, "gpu_utilization_ratio")) < 1.0, 20)
        assert value(node, "gpu_processes") == [1, 0]
        wait_until(
            "busy seconds", lambda: max(value(node, "gpu_use_seconds_total", use="busy")) > 1
        )
    finally:
        node.run("systemctl stop work")


def test_the_agent_is_no_gpu_work(node: Node) -> None:
    """Else nothing could ever be converged while it runs."""
    shown = node.run("cat /proc/$(pgrep -P $(systemctl show -P MainPID gpuferry-agent))/comm")
    assert shown == "gpuferry-agent\n"


def test_a_lost_gpu_is_a_fault_and_the_other_goes_on(faulty: Node) -> None:
    change(faulty, Request("lost", gpu=1))
    assert wait_for(faulty, 1, "fault") <= 15
    assert sorted(value(faulty, "gpu_up")) == [0, 1]
    assert len(value(faulty, "gpu_power_watts")) == 1
    assert value(faulty, "gpu_xid_total", xid="79") == [1]


def test_a_hung_driver_is_reported_in_time_and_scrapes_go_on(faulty: Node) -> None:
    wait_until("readings", lambda: len(value(faulty, "gpu_power_watts")) == 2, 30)
    change(faulty, Request("hang", function="nvmlDeviceGetPowerUsage"))
    seconds = wait_for(faulty, 0, "driver_hung", 25)
    assert seconds <= 15, seconds
    assert value(faulty, "gpu_power_watts") == []
    assert "nvmlDeviceGetPowerUsage" in ask(faulty, "/state")
    assert verdicts(faulty)["agent.sees"].status == "fail"


def test_the_unit_stops_and_starts_while_the_driver_hangs(faulty: Node) -> None:
    change(faulty, Request("hang", function="nvmlDeviceGetPowerUsage"))
    started = time.monotonic()
    faulty.run("systemctl restart gpuferry-agent")
    assert time.monotonic() - started < 20
    wait_for(faulty, 0, "driver_hung", 25)


def test_a_killed_agent_comes_back_and_tells_no_old_fault_again(faulty: Node) -> None:
    change(faulty, Request("xid", gpu=0, code=94))
    wait_until("the Xid", lambda: value(faulty, "gpu_xid_total", xid="94") == [1])
    time.sleep(2)
    before = sum(value(faulty, "gpu_use_seconds_total"))
    faulty.run("systemctl kill --signal=KILL gpuferry-agent")
    wait_until("a new agent", lambda: faulty.run(
        "systemctl show -P NRestarts gpuferry-agent").strip() != "0", 20)  # fmt: skip
    wait_until("it answers", lambda: faulty.run(
        "systemctl is-active gpuferry-agent || true").strip() == "active", 20)  # fmt: skip
    wait_until("readings", lambda: value(faulty, "gpu_power_watts"), 20)
    assert value(faulty, "gpu_xid_total", xid="94") == [1]
    assert sum(value(faulty, "gpu_use_seconds_total")) >= before


def test_a_hand_edit_is_mended(node: Node) -> None:
    node.run("echo '{}' > /etc/gpuferry/agent.json; rm /usr/local/lib/gpuferry/agent/pynvml.py")
    assert node.changed("agent", **QUICK) == 1
    assert node.changed("agent", **QUICK) == 0
    wait_until("readings", lambda: value(node, "gpu_power_watts"), 20)


def test_a_boot_keeps_the_accounts_and_the_token(node: Node) -> None:
    token = node.run("cat /var/lib/gpuferry-agent/token")
    before: Any = sum(value(node, "gpu_use_seconds_total"))
    node.restart()
    wait_until("readings", lambda: value(node, "gpu_power_watts"), 30)
    assert node.run("cat /var/lib/gpuferry-agent/token") == token
    assert sum(value(node, "gpu_use_seconds_total")) >= before
    node.run("test -k /run/gpuferry/progress")
