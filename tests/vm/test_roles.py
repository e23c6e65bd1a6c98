"""Roles and checks on a virtual machine with Debian 12, and its sizes."""

from __future__ import annotations

import pytest

from gpuferry import desired
from gpuferry.checking import run_checks
from gpuferry.nodes.local import disk, machine
from gpuferry.nodes.session import wait_for_ssh
from gpuferry.spec import parse_spec
from tests.support.node import ROLES

pytestmark = pytest.mark.slow
# On the disk already, since unpacking packages under emulation takes minutes and proves nothing.
UNPACKED = ["docker.io", "apparmor", "nftables", "netbase", "gnupg", "rsync", "libnss-myhostname"]


@pytest.fixture(scope="module")
def node(new_node):
    return new_node("debian-12", "vm", kind="vm", packages=UNPACKED)


def test_roles_change_it_once(node):
    assert node.changed() > 0
    assert node.changed() == 0


def test_every_check_that_can_be_made_passes(node):
    spec = parse_spec({"gpuferry:servers": [{"name": "vm", "kind": "vm"}]}, "Pulumi.x.yaml")
    subnets = [node.network["subnet4"], node.network["subnet6"]]
    facts = desired.StackFacts(management_networks=subnets)
    expected = desired.expectations(spec, spec.servers[0], node.server.user, "vm", facts)
    # The roles that were played: more of them would install more under emulation.
    verdicts = run_checks([node.server], {"vm": {**expected, "roles": ROLES}})
    wrong = [
        f"{v.id}: {v.status}: {v.measured} {v.evidence}"
        for v in verdicts
        if v.status in ("fail", "refused")
    ]
    assert wrong == []
    assert len([v for v in verdicts if v.status == "pass"]) > 10


def test_it_keeps_the_time_of_this_machine(node):
    told = node.run("journalctl -u systemd-timesyncd --no-pager -g 'Contacted time server'")
    assert "Contacted time server 169.254." in told
    assert "NTPSynchronized=yes" in node.run("timedatectl show -p NTPSynchronized")


def test_sizes_change_in_place(node):
    node.run("echo kept > /data/note; echo kept > /root/note")
    with machine.stopped(node.stack, "vm"):
        disk.create(node.stack, "vm", 2, [1])
    wait_for_ssh(node.server, 240)
    outputs = node.resize(cpus=1, memory_gib=1.5, extra_disks=1)
    assert outputs["provider_facts"]["memory_gib"] == "1.5"
    size = {"resize_cpus": 1, "resize_memory_gib": 1.5, "resize_data_disk_gib": 2}
    assert node.play("firewall", playbook="resize.yml", **size).changed(node.server.name) == 0
    assert node.run("cat /data/note /root/note") == "kept\nkept\n"
    assert node.run("lsblk -dno SIZE /dev/disk/by-id/virtio-extra-1").strip() == "1G"
