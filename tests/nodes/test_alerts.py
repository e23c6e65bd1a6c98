"""Every alert, from what is wrong on a real server with simulated L4 to a real webhook."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator

import pytest

from gpuferry.monitoring import alert_names
from gpuferry.simulation.faults import Request
from tests.support import history
from tests.support.monitored import (
    MOUNTS,
    ROLES,
    busy,
    change,
    make_healthy,
    quick,
    set_readings,
    wait_for_all,
    wait_for_silence,
)
from tests.support.node import Node, NodeMaker
from tests.support.simulated import wait_until
from tests.support.webhook import Webhook

# A file system whose server never answers.
STUCK = """
import ctypes, os, time
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"stuck", b"/stuck", b"fuse", 0, options):
    raise OSError(ctypes.get_errno())
time.sleep(300)
"""
# The main thread alone, so that the agent still answers: PTRACE_SEIZE, PTRACE_INTERRUPT.
HELD = """
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
for request in (0x4206, 0x4207):
    if libc.ptrace(request, int(sys.argv[1]), None, None):
        raise OSError(ctypes.get_errno())
time.sleep(300)
"""


@pytest.fixture(scope="module")
def node(image: str, new_node: NodeMaker) -> Node:
    node = new_node(image, name="gpu-1", gpu_model="L4", gpu_count=2)
    node.play("nvidia_driver", nvidia_driver_wish={"gpus": 2})
    node.run(
        f"mkdir {' '.join(MOUNTS)}; mount -t tmpfs -o size=20M small /small; "
        "mount -t tmpfs -o size=20M low /low; mount -t tmpfs -o size=20M,nr_inodes=100 few /inodes"
    )
    return node


@pytest.fixture(scope="module")
def hook(node: Node) -> Webhook:
    hook = Webhook(node)
    node.play(*ROLES, **quick())
    return hook


@pytest.fixture
def faulty(node: Node, hook: Webhook) -> Iterator[Node]:
    wait_for_silence(node)
    hook.from_now()
    yield node
    node.run("systemctl stop 'stuck*' 'held*'; umount -l /stuck || true")
    make_healthy(node)
    # What counts for minutes would be in the way of the next.
    history.forget(node)


def test_a_lost_gpu_and_a_hung_driver_are_told_within_15_seconds(
    faulty: Node, hook: Webhook
) -> None:
    """These last no shorter here than as shipped."""
    since = hook.from_now()
    change(faulty, Request("lost", gpu=1))
    lost = hook.wait("GpuFault", index="1")
    assert time.monotonic() - since < 15 + 3, "asking the node takes a moment, too"
    assert lost.at - hook.since <= 15
    assert "79" in lost.annotations["evidence"]
    hook.from_now()
    change(faulty, Request("hang", function="nvmlDeviceGetPowerUsage"))
    hung = hook.wait("GpuDriverHung")
    assert hung.at - hook.since <= 15
    # Its GPUs have nothing to say beside that.
    assert {t.labels["alertname"] for t in hook.told()} - {"Watchdog"} == {"GpuDriverHung"}
    make_healthy(faulty)
    hook.wait("GpuDriverHung", "resolved", seconds=60)


@pytest.mark.slow
def test_faults_are_told_and_then_that_they_are_over(faulty: Node, hook: Webhook) -> None:
    """Many at once."""
    change(
        faulty,
        Request("throttle", gpu=0, reason="hw-thermal"),
        Request("memory-leak", gpu=0, count=2000),
        Request("ecc-corrected", gpu=0, count=30_000_000),
        Request("ecc-uncorrected", gpu=0, count=3),
        Request("remap-pending", gpu=0),
        Request("xid", gpu=0, code=13),
        Request("xid", gpu=1, code=998),
    )
    set_readings(faulty, 0, "temperature=89", "remapped_correctable=600")
    busy(faulty, 1, 50)
    faulty.run(
        "fallocate -l 19500K /small/full; fallocate -l 18700K /low/full; touch /inodes/{1..95}"
    )
    faulty.start_program("stuck", STUCK)
    expected = {
        ("GpuThrottled", "0"), ("GpuHot", "0"), ("GpuLeakedMemory", "0"), ("GpuRemapDue", "0"),
        ("GpuRemappedRows", "0"), ("GpuEccCorrected", "0"), ("GpuEccUncorrected", "0"),
        ("GpuJobFault", "0"), ("GpuXid", "1"), ("GpuStarved", "1"),
        ("DiskNearlyFull", "/small"), ("DiskLow", "/low"), ("DiskInodesLow", "/inodes"),
        ("DiskStuck", "/stuck"),
    }  # fmt: skip
    wait_for_all(hook, "firing", expected, 90)
    for one in hook.told():
        if one.labels["alertname"] == "Watchdog":
            continue
        text = " ".join(one.annotations.values())
        assert not re.search(r"<error|error executing|<no value>|\{\{", text), one
        assert {"summary", "evidence", "next_step", "look"} <= set(one.annotations), one
    # The same at a smaller scale is silent meanwhile.
    assert not hook.find("DiskLow", mount="/small")
    faulty.run("systemctl stop stuck; umount -l /stuck || true")
    make_healthy(faulty)
    # New errors count for 15 min. An Xid may have been over before the last of the others came.
    wait_for_all(hook, "resolved", expected - {("GpuEccUncorrected", "0")}, 120)


@pytest.mark.slow
def test_idle_and_hung_jobs_and_a_silent_agent(faulty: Node, hook: Webhook) -> None:
    set_readings(faulty, 0, "power=20")
    busy(faulty, 0, 100)
    busy(faulty, 1, 0)
    hook.wait("GpuAllocatedIdle", seconds=60, index="1")
    wait_for_all(hook, "firing", {("GpuCollectiveHung", "0"), ("GpuProcessHung", "1")}, 90)
    faulty.run("systemctl stop gpuferry-agent")
    hook.wait("AgentDown", seconds=30)
    faulty.run("systemctl start gpuferry-agent")
    hook.wait("AgentDown", "resolved", seconds=75)


@pytest.mark.slow
def test_a_driver_that_does_not_start_is_told_once(faulty: Node, hook: Webhook) -> None:
    change(faulty, Request("version-mismatch"))
    # It is asked again by a process that starts.
    faulty.run("systemctl restart gpuferry-agent")
    hook.wait("GpuDriverFailed", seconds=60)
    assert {t.labels["alertname"] for t in hook.told()} <= {"GpuDriverFailed", "Watchdog"}
    make_healthy(faulty)
    hook.wait("GpuDriverFailed", "resolved", seconds=90)


@pytest.mark.slow
def test_an_agent_that_looks_no_more_or_restarts_and_a_gpu_that_is_not_there(
    faulty: Node, hook: Webhook
) -> None:
    pid = faulty.run("systemctl show -P MainPID gpuferry-agent").strip()
    faulty.start_program("held", HELD, pid)
    hook.wait("AgentBlind", seconds=75)
    faulty.run("systemctl stop held")
    hook.wait("AgentBlind", "resolved", seconds=60)
    # The last start with another expectation.
    for _ in range(3):
        faulty.run("systemctl restart gpuferry-agent; sleep 5")
    assert faulty.changed("agent", **{**quick(), "agent_expected_gpus": 3}) == 1
    hook.wait("GpuMissing", seconds=45)
    hook.wait("AgentRestarting", seconds=45)
    assert faulty.changed("agent", **quick()) == 1


@pytest.mark.slow
def test_who_watches_is_watched(faulty: Node, hook: Webhook) -> None:
    hook.refuse()
    faulty.run("fallocate -l 19500K /small/full")
    wait_until("a refused message", lambda: history.fires(faulty, "AlertsNotDelivered"), 90)
    hook.take_again()
    hook.wait("AlertsNotDelivered", seconds=60)
    twice = "{groups: [{name: test, rules: [{record: x, expr: gpu_info * on () gpu_info}]}]}"
    faulty.run(
        f"echo '{twice}' > /etc/gpuferry/monitoring/rules-test.yml; "
        "systemctl reload gpuferry-prometheus"
    )
    told = hook.wait("AlertRulesFailing", seconds=60)
    assert told.labels["rule_group"].endswith(";test")
    faulty.run("rm /etc/gpuferry/monitoring/rules-test.yml; systemctl reload gpuferry-prometheus")
    # Nobody can tell this one but the silence of the Watchdog.
    faulty.run("systemctl stop gpuferry-alertmanager")
    wait_until("AlertmanagerDown", lambda: history.fires(faulty, "AlertmanagerDown"), 60)
    faulty.run("systemctl start gpuferry-alertmanager")
    history.damage(faulty)
    hook.wait("PrometheusStorage", seconds=90)


@pytest.mark.slow
def test_what_falls_or_grows_over_hours_is_told(faulty: Node, hook: Webhook) -> None:
    """The hours before are written into Prometheus' own store; what is read now is real."""
    busy(faulty, 0, 20)
    faulty.run("fallocate -l 14M /small/full")
    history.give(faulty, gpu="0", filling="/small")
    grow = "for i in {1..60}; do fallocate -l $((14400 + i * 20))K /small/full; sleep 5; done"
    faulty.run(f"systemd-run -q --collect --unit=work-grow bash -c {shlex.quote(grow)}")
    wait_for_all(hook, "firing", {("GpuUtilisationFalling", "0"), ("DiskFillingUp", "/small")}, 240)


@pytest.mark.slow
def test_every_alert_came(request: pytest.FixtureRequest, node: Node, hook: Webhook) -> None:
    names = [name for name in vars(request.module) if name.startswith("test_")]
    if len([item for item in request.session.items if item.path == request.path]) < len(names):
        pytest.skip("only some tests of this file were asked for")
    hook.since = 0
    came = {t.labels["alertname"] for t in hook.told() if t.status == "firing"}
    assert came | {"AlertmanagerDown"} == set(alert_names())
