"""What the roles refuse, and that nothing has changed then."""

import pytest

from gpuferry.desired import GPU_ROLES
from gpuferry.errors import StepFailed
from gpuferry.nodes.session import SshSession
from tests.support.marks import slow

STATE = "find /etc -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum"


@pytest.fixture(scope="module")
def node(new_node):
    return new_node("debian-12")


@pytest.mark.parametrize(
    ("role", "variables", "sentence"),
    [
        ("base", {"base_users": [{"name": "daemon", "public_keys": []}]}, "a system account"),
        ("base", {"base_apt_sources": {"debian": "http://x"}}, "exactly the keys"),
        ("ssh_hardening", {"ssh_hardening_allow_users": ["bob"]}, "would lock out"),
        *slow(("ssh_hardening", {"ssh_hardening_allow_groups": ["wheel"]}, "would lock out")),
        ("ssh_hardening", {"ssh_hardening_kex_profile": "pq_only"}, "no mlkem768x25519-sha256"),
        ("firewall", {"firewall_ssh_from": ["192.0.2.0/24"]}, "would be shut out"),
        *slow(("firewall", {"firewall_ssh_from": []}, "nobody could log in")),
        ("firewall", {"firewall_ssh_from": ["10.0.0/8"]}, "Not a CIDR"),
        ("firewall", {"firewall_ssh_port": 2222}, "one of them is wrong"),
        ("docker", {"docker_users": ["nobody-here"]}, "docker_users names nobody-here"),
    ],
)
def test_refused_before_any_change(node, role, variables, sentence):
    before = node.run(STATE)
    with pytest.raises(StepFailed, match=sentence):
        node.play(role, **variables)
    assert node.run(STATE) == before


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"gpus": 2}, "no NVIDIA GPU is on PCI"),
        *slow(({"gpus": 1, "branch": "470"}, "no NVIDIA GPU is on PCI")),
    ],
)
def test_gpus_that_are_not_there_are_refused_before_the_first_role(node, wish, sentence):
    before = node.run(STATE)
    with pytest.raises(StepFailed, match=sentence):
        node.play(*GPU_ROLES, nvidia_driver_wish=wish)
    assert node.run(STATE) == before


def test_a_foreign_sshd_setting_that_adds_up_is_named_and_our_file_taken_back(node):
    node.run("sed -i '1i AllowUsers bob gpu' /etc/ssh/sshd_config")
    try:
        with pytest.raises(StepFailed, match="allowusers bob"):
            node.play("ssh_hardening")
        # Had sshd been reloaded on the way back, it would now refuse this very login.
        with SshSession([node.server]) as fresh:
            listed = fresh.run(node.server, ["ls", "/etc/ssh/sshd_config.d"], timeout_seconds=30)
        assert listed.returncode == 0
        assert b"00-gpuferry" not in listed.stdout
    finally:
        node.run("sed -i 1d /etc/ssh/sshd_config")


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ('echo \'{"status":"error","errors":["no disk"]}\'; exit 1', "no disk"),
        ('echo \'{"status":"running"}\'', "still 'running' after 2 seconds"),
    ],
)
def test_an_unfinished_first_boot_is_refused(node, script, sentence):
    node.run(
        f"cat > /usr/bin/cloud-init <<'X'\n#!/bin/sh\n{script}\nX\nchmod +x /usr/bin/cloud-init"
    )
    try:
        with pytest.raises(StepFailed, match=sentence):
            node.play("base", base_first_boot_timeout_seconds=2)
    finally:
        node.run("rm /usr/bin/cloud-init")


HOLD = """
cat > /root/hold.py <<'X'
import fcntl, time
with open("/var/lib/dpkg/lock-frontend", "w") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    time.sleep(600)
X
systemd-run -q --unit=hold python3 /root/hold.py
for try in $(seq 100); do grep -q POSIX /proc/locks && break; sleep 0.1; done
"""


def test_the_holder_of_the_package_lock_is_named(node):
    node.run(HOLD)
    try:
        with pytest.raises(StepFailed, match=r"held by process \d+ \(.*hold\.py"):
            node.play("base", base_apt_lock_timeout_seconds=2)
    finally:
        node.run("systemctl stop hold")
