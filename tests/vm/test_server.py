"""A virtual machine is a server like any other. Its roles and sizes are in test_roles.py."""

from __future__ import annotations

import pytest

from gpuferry.nodes.local import machine
from gpuferry.nodes.local.docker import docker
from gpuferry.nodes.session import wait_for_ssh
from tests.vm.test_kernel import WITH_HEADERS


@pytest.fixture(scope="module")
def node(new_node):
    # The same disk as there: making one takes minutes.
    return new_node("debian-13", "vm", kind="vm", packages=WITH_HEADERS)


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
    wait_for_ssh(node.server, 240)
    assert node.run("cat /data/note /root/note") == "kept\nkept\n"
    assert "Journal stopped" in node.run("journalctl -b -1 -n 3 --no-pager")


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
