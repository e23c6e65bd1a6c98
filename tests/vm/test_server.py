"""A virtual machine is a server like any other: roles, checks, stop and start, sizes, rebuild."""

from __future__ import annotations

import pytest

from gpuferry import desired
from gpuferry.checking import run_checks
from gpuferry.nodes.local import disk, machine
from gpuferry.nodes.local.docker import docker
from gpuferry.nodes.session import wait_for_ssh
from gpuferry.spec import parse_spec
from tests.support.node import ROLES

# On the disk already, since unpacking packages under emulation takes minutes and proves nothing.
UNPACKED = ["docker.io", "apparmor", "nftables", "netbase", "gnupg", "rsync", "libnss-myhostname"]


@pytest.fixture(scope="module")
def node(new_node):
    return new_node("debian-12", "vm", kind="vm", packages=UNPACKED)


@pytest.mark.slow
def test_roles_change_it_once(node):
    assert node.changed() > 0
    assert node.changed() == 0


@pytest.mark.slow
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


def test_it_reaches_others_on_the_private_network_and_is_reached_by_them(node):
    """A container stands for the object store and other servers; both IP versions."""
    (tag,) = {docker("inspect", "--format", "{{.Image}}", f"gpuferry-{node.stack}-vm").strip()}
    knock = "import socket; print(socket.create_connection(('{}', 22), 5).recv(7).decode())"
    for address in (node.server.address, node.server.provider_facts["address6"]):
        network = ["run", "--rm", "--network", f"gpuferry-{node.stack}"]
        assert "SSH-2.0" in docker(*network, tag, "python3", "-c", knock.format(address))


def test_a_stop_is_clean_and_a_start_finds_the_data(node):
    node.run("echo kept > /data/note; echo kept > /root/note")
    with machine.stopped(node.stack, "vm"):
        assert machine.states(node.stack) == {"vm": "exited"}
        said = docker("logs", "--tail", "20", f"gpuferry-{node.stack}-vm")
        assert "did not shut down" not in said
        disk.create(node.stack, "vm", 2, [1])
    wait_for_ssh(node.server, 240)
    assert node.run("cat /data/note /root/note") == "kept\nkept\n"
    assert "Journal stopped" in node.run("journalctl -b -1 -n 3 --no-pager")


@pytest.mark.slow
def test_sizes_change_in_place(node):
    outputs = node.resize(cpus=1, memory_gib=1.5, extra_disks=1)
    assert outputs["provider_facts"]["memory_gib"] == "1.5"
    size = {"resize_cpus": 1, "resize_memory_gib": 1.5, "resize_data_disk_gib": 2}
    assert node.play("firewall", playbook="resize.yml", **size).changed(node.server.name) == 0
    assert node.run("cat /data/note /root/note") == "kept\nkept\n"
    assert node.run("lsblk -dno SIZE /dev/disk/by-id/virtio-extra-1").strip() == "1G"


def test_nothing_restarts_when_nothing_differs(node):
    before = node.boot_id()
    node.resize()
    assert node.boot_id() == before


def test_a_rebuild_gives_a_fresh_system_with_the_same_key_address_and_data(node):
    before = node.server
    machine.delete(node.stack, "vm")
    outputs = node.resize()
    assert outputs["address"] == before.address
    assert outputs["instance_id"] != before.instance_id
    assert node.run("cat /data/note; ls /root/note 2>/dev/null || true") == "kept\n"
