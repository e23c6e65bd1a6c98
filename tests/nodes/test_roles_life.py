"""The four roles on a bare node: preview, converge, nothing to do, restart, repair."""

import json

import pytest

from gpuferry import keys
from gpuferry.errors import StepFailed

CHANGED_ON_DISK = """
find / -xdev -newer /root/mark -type f -not -path '/var/log/*' -not -path '*/.ansible/*' \
  -not -path '/var/lib/systemd/*' -not -path '/root/mark'
"""


@pytest.fixture(scope="module")
def node(image, new_node):
    return new_node(image)


def test_preview_of_a_bare_node_changes_nothing(node):
    node.run("touch /root/mark")
    node.play(check_only=True)
    assert node.run(CHANGED_ON_DISK).split() == []


def test_first_converge_changes_and_the_second_does_not(node):
    assert node.changed() > 0
    assert node.changed() == 0


def test_nothing_to_do_after_a_restart(node):
    node.restart()
    assert node.changed() == 0


# What somebody does by hand, the role that mends it, and what holds before and afterwards.
SHUT = "! nft list chain inet gpuferry input | grep -q 'dport 99 '"
EDITS = [
    (
        "echo x >> /etc/systemd/journald.conf.d/60-gpuferry.conf",
        "base",
        "! grep -q ^x /etc/systemd/journald.conf.d/60-gpuferry.conf",
    ),
    (
        "chmod 0666 /etc/sudoers.d/60-gpuferry",
        "base",
        "test $(stat -c %a /etc/sudoers.d/60-gpuferry) = 440",
    ),
    (
        "rm /etc/ssh/sshd_config.d/00-gpuferry.conf",
        "ssh_hardening",
        "test -s /etc/ssh/sshd_config.d/00-gpuferry.conf",
    ),
    ("nft add rule inet gpuferry input tcp dport 99 accept", "firewall", SHUT),
    (
        "systemctl disable -q gpuferry-firewall",
        "firewall",
        "systemctl is-enabled -q gpuferry-firewall",
    ),
    ("nft delete table inet gpuferry", "firewall", f"nft list table inet gpuferry; {SHUT}"),
    (
        "systemctl stop -q docker.socket docker",
        "docker",
        "systemctl is-active docker; docker info",
    ),
    ("rm /etc/docker/daemon.json", "docker", "grep -q max-file /etc/docker/daemon.json"),
]


def test_hand_edits_are_repaired_together(node):
    """The table is not deleted: that would take away the rule that is added."""
    edits = [edit for edit in EDITS if "delete table" not in edit[0]]
    for _, _, holds in edits:
        node.run(holds)
    node.run("; ".join(edit for edit, _, _ in edits))
    changed = node.play().changed_tasks[node.server.name]
    assert {task.split(":")[0] for task in changed} == {role for _, role, _ in edits}
    for _, _, holds in edits:
        node.run(holds)
    assert node.changed() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("edit", "role", "holds"), EDITS)
def test_a_hand_edit_is_repaired_and_nothing_else_touched(node, edit, role, holds):
    node.run(edit)
    (task,) = node.play().changed_tasks[node.server.name]
    assert task.startswith(f"{role}: ")
    node.run(holds)
    assert node.changed() == 0


def test_only_the_roles_that_are_asked_for_are_played(node):
    """Play variables outrank the inventory's, so a default in the wrong place plays all roles."""
    node.said.clear()
    node.play("firewall")
    roles = {label.split(":")[0] for label in node.said if ": " in label}
    assert roles == {"firewall"}


def test_a_declared_size_that_is_not_there_is_refused(node):
    with pytest.raises(StepFailed, match="is declared"):
        node.play(playbook="resize.yml", resize_data_disk_gib=60000)


OWED = ["/bin/sh", "-c"]
OWED.append("! command -v update-ca-certificates >/dev/null || update-ca-certificates")


@pytest.mark.slow
def test_what_a_killed_run_wrote_but_did_not_apply_is_applied(node):
    """Files as wanted say nothing about whether they are in force."""
    ca = {"name": "owed.crt", "pem": keys.certificate_authority("owed")["ca_pem"]}
    node.play("base", base_extra_ca_certificates=[ca])
    owed = json.dumps([OWED])
    node.run(
        f"rm /etc/ssl/certs/owed.pem; echo '{owed}' > /var/lib/gpuferry/unapplied.json; "
        "test -e /usr/local/share/ca-certificates/owed.crt"
    )
    node.play("base", base_extra_ca_certificates=[ca])
    node.run("test -e /etc/ssl/certs/owed.pem; test ! -e /var/lib/gpuferry/unapplied.json")
    assert node.changed("base", base_extra_ca_certificates=[ca]) == 0


def test_an_interrupted_installation_is_finished(node):
    node.run("apt-get -q -y remove rsync >/dev/null; : > /var/lib/dpkg/updates/0001")
    assert node.changed("base") > 0
    node.run('command -v rsync; test -z "$(ls /var/lib/dpkg/updates)"')
