"""Whatever a change runs into, the next login works, and what was not proven is undone."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from gpuferry.errors import StepFailed
from gpuferry.nodes.session import wait_for_ssh
from tests.support import clients
from tests.support.marks import slow
from tests.support.node import Node, NodeMaker

DROP_IN = "/etc/ssh/sshd_config.d/60-foreign.conf"
OURS = "/etc/ssh/sshd_config.d/00-gpuferry.conf"
LEFT = "ls /var/lib/gpuferry/rollback /etc/systemd/system | grep gpuferry-rollback || true"
TIMERS = "systemctl list-units --plain --no-legend 'gpuferry-rollback-*' | cut -d' ' -f1"
UNCONFIRMED = "../tests/support/unconfirmed.yml"
ROLES = ("base", "ssh_hardening", "firewall")
ADA = {"name": "ada", "public_keys": ["ssh-ed25519 AAAAC3Nza ada"], "sudo": True}


@pytest.fixture(scope="module")
def node(new_node: NodeMaker) -> Node:
    node = new_node()
    # As the stack file's firewall.ssh_from does it: sshd itself shuts out who only knocks.
    own = [node.network["subnet4"], node.network["subnet6"]]
    node.play(*ROLES, ssh_hardening_never_banned=own)
    return node


def wait(node: Node, script: str, seconds: int = 30) -> None:
    """Until a command succeeds on the server."""
    node.run(f"for _ in $(seq {seconds * 5}); do ({script}) && exit; sleep 0.2; done; exit 1")


@pytest.mark.parametrize(
    ("foreign", "sentence"),
    [
        ("Bogus yes", "Bad configuration option"),
        ("AllowGroups admin", "60-foreign.conf:1 allowgroups admin decides"),
        ("Port 2222", "60-foreign.conf:1 port 2222 would move sshd away from port 22"),
        *slow(
            ("DenyUsers ferry", "60-foreign.conf:1 denyusers ferry denies ferry"),
            ("ListenAddress 127.0.0.1", "would leave out"),
        ),
    ],
)
def test_settings_that_wait_for_the_next_reload_do_not_lock_out(
    node: Node, foreign: str, sentence: str
) -> None:
    """Somebody wrote them and did not reload; our reload would bring them into force."""
    before = node.run(f"cat {OURS}")
    node.run(f"echo '{foreign}' > {DROP_IN}")
    try:
        with pytest.raises(StepFailed, match=sentence):
            node.play("ssh_hardening", ssh_hardening_max_auth_tries=5)
        assert node.run(f"cat {OURS}") == before
        assert node.run(LEFT) == ""
        assert clients.by_openssh(node) == node.server.user
    finally:
        node.run(f"rm {DROP_IN}")


def test_a_change_is_made_under_socket_activation_without_a_running_sshd(node: Node) -> None:
    """Nobody has made /run/sshd then, without which sshd does not even read its settings."""
    node.run("systemctl stop ssh; systemctl start ssh.socket; rm -rf /run/sshd")
    assert node.changed("ssh_hardening", ssh_hardening_max_auth_tries=5) == 1
    assert clients.by_openssh(node) == node.server.user
    assert node.run(LEFT) == ""
    assert "maxauthtries 5" in node.run("sshd -T -C user=root,host=x,addr=10.1.1.1")


def test_a_restart_before_the_proof_undoes_the_change(node: Node) -> None:
    # Not disabled and enabled as well: when the alias sshd.service comes back, systemd 257 now and
    # then takes a running ssh.service for dead, and the next one finds its port taken.
    # Under the socket it was started for every login, which counts towards its start limit.
    node.run("systemctl stop ssh.socket; systemctl reset-failed ssh; systemctl restart ssh")
    before = node.run(f"cat {OURS}")
    node.play("ssh_hardening", playbook=UNCONFIRMED, ssh_hardening_max_auth_tries=3)
    assert node.run(f"cat {OURS}") != before
    assert "gpuferry-rollback-ssh.timer" in node.run(TIMERS)
    node.restart()
    assert node.run(f"cat {OURS}") == before
    assert (node.run(TIMERS), node.run(LEFT)) == ("", "")
    assert node.run("systemctl is-system-running --wait") == "running\n"


def test_rights_that_no_login_confirmed_are_taken_back(node: Node) -> None:
    node.play("base", playbook=UNCONFIRMED, base_users=[ADA], base_rollback_seconds=5)
    assert "ada" in node.run("cat /etc/sudoers.d/60-gpuferry")
    wait(node, "! grep -q ada /etc/sudoers.d/60-gpuferry")
    assert node.run("ls /home/ada/.ssh 2>/dev/null || true") == ""
    node.play("base", base_users=[ADA])
    assert "ada" in node.run("cat /etc/sudoers.d/60-gpuferry")
    assert node.run(LEFT) == ""


@pytest.mark.slow
def test_a_proof_that_comes_after_the_timer_is_no_proof(node: Node) -> None:
    """The firewall's timer still runs then, the accounts' has fired."""
    with pytest.raises(StepFailed, match="undone by gpuferry-rollback-base"):
        node.play(*ROLES, base_users=[], base_rollback_seconds=1, firewall_dhcp_client=False)
    wait(node, "systemctl stop 'gpuferry-rollback-*.timer'; true")
    node.run("sh /var/lib/gpuferry/rollback/gpuferry-rollback-firewall/restore")
    assert node.changed(*ROLES, base_users=[]) > 0
    assert node.changed(*ROLES, base_users=[]) == 0


OUTSIDE = """
ip netns add outside 2>/dev/null || exit 0
ip link add out0 type veth peer name out1 netns outside
ip address add 198.51.100.1/24 dev out0; ip link set out0 up
ip -n outside address add 198.51.100.2/24 dev out1; ip -n outside link set out1 up
"""
KNOCKS = """
import socket, sys
passed = 0
for _ in range(int(sys.argv[2])):
    try:
        socket.create_connection((sys.argv[1], 22), 0.4).close()
        passed += 1
    except OSError:
        pass
print(passed)
"""


def world(node: Node) -> dict[str, Any]:
    return {"firewall_ssh_from": ["0.0.0.0/0", node.network["subnet4"], "::/0"]}


@pytest.mark.slow
def test_strangers_are_slowed_down_and_the_controller_never_is(node: Node) -> None:
    node.run(OUTSIDE)
    own = [node.network["subnet4"], node.network["subnet6"]]
    node.play("ssh_hardening", "firewall", **world(node), ssh_hardening_never_banned=own)
    asked = f"ip netns exec outside python3 - 198.51.100.1 40 <<'END'\n{KNOCKS}\nEND"
    assert 20 <= int(node.run(asked)) < 30
    ours = subprocess.run(
        ["python3", "-c", KNOCKS, node.server.address, "60"], capture_output=True, check=True
    )
    assert int(ours.stdout) == 60
    # sshd first has to notice that the last of them have gone (PerSourceMaxStartups).
    wait_for_ssh(node.server, 5)
    # Who was seen lately is not a difference.
    assert node.changed("firewall", **world(node)) == 0
