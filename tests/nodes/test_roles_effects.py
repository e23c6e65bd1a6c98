"""What the roles do to a live node: logins, packets, containers."""

import json

import pytest

from gpuferry.errors import StepFailed
from gpuferry.nodes.session import wait_for_ssh

OTHERS = "nft -s list ruleset 2>/dev/null | sed '/^table inet gpuferry/,/^}/d'"


@pytest.fixture(scope="module")
def node(new_node):
    node = new_node()
    node.play()
    return node


def test_other_files_cannot_loosen_sshd(node):
    node.run(
        "echo PasswordAuthentication yes > /etc/ssh/sshd_config.d/50-cloud-init.conf\n"
        "printf 'Match User root\\n PermitRootLogin yes\\n PasswordAuthentication yes\\n'"
        " >> /etc/ssh/sshd_config"
    )
    assert node.changed("ssh_hardening") == 0
    effective = node.run("sshd -T -C user=root,host=x,addr=10.1.1.1").splitlines()
    assert "passwordauthentication no" in effective
    assert "permitrootlogin no" in effective


def test_a_change_that_shuts_out_new_logins_is_undone(node):
    node.run(
        "cp /etc/gpuferry/firewall.nft /root/before\n"
        "nft 'add table inet evil; add chain inet evil i { type filter hook input priority -5; }'\n"
        "printf '[Path]\\nPathChanged=/etc/gpuferry/firewall.nft\\n'"
        " > /run/systemd/system/evil.path\n"
        "printf '[Service]\\nExecStart=nft add rule inet evil i tcp dport 22 ct state new drop\\n'"
        " > /run/systemd/system/evil.service\n"
        # The door opens again by itself, so that the test can look.
        "systemd-run -q --on-active=25s --timer-property=AccuracySec=1s"
        " nft delete table inet evil\n"
        "systemctl daemon-reload; systemctl start evil.path"
    )
    with pytest.raises(StepFailed, match="Log in again"):
        node.play("firewall", firewall_rollback_seconds=12, firewall_dhcp_client=False)
    wait_for_ssh(node.server, 60)
    node.run("systemctl stop evil.path; cmp /etc/gpuferry/firewall.nft /root/before")
    assert node.changed("firewall") == 0


@pytest.mark.parametrize("verb", ["reload", "restart"])
@pytest.mark.parametrize("unit", ["gpuferry-firewall"])
def test_rules_of_others_survive_our_unit(node, unit, verb):
    node.run("nft 'add table ip foreign; add chain ip foreign c'")
    before = node.run(OTHERS)
    node.run(f"systemctl {verb} {unit}")
    assert node.run(OTHERS) == before


@pytest.mark.parametrize("verb", ["restart", "reload", "stop"])
def test_our_rules_survive_the_flushing_unit_of_the_distribution(node, verb):
    node.run(f"systemctl start nftables; systemctl {verb} nftables")
    assert "policy drop" in node.run("nft list table inet gpuferry")
    node.run("systemctl stop nftables; systemctl reset-failed docker; systemctl restart docker")


def test_a_reload_of_a_socket_activated_sshd_does_not_end_it(node):
    node.run("systemctl stop ssh; systemctl start ssh.socket")
    assert node.changed("ssh_hardening", ssh_hardening_max_auth_tries=5) == 1
    assert node.changed("ssh_hardening") == 1


def settings(node):
    return json.loads(node.run("cat /etc/docker/daemon.json"))


def test_foreign_docker_settings_stay(node):
    node.run("""echo '{"debug": true, "log-opts": {"tag": "t"}}' > /etc/docker/daemon.json""")
    assert node.changed("docker") == 1
    assert settings(node)["debug"] is True
    assert settings(node)["log-opts"] == {"tag": "t", "max-size": "50m", "max-file": "5"}


def test_docker_settings_that_are_no_json_are_set_aside(node):
    node.run("echo '{broken' > /etc/docker/daemon.json")
    assert node.changed("docker") == 1
    assert node.run("cat /etc/docker/daemon.json.invalid") == "{broken\n"
    assert settings(node)["live-restore"] is True


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"hosts": ["fd://"]}, "hosts is set both"),
        ({"bogus-key": 1}, "bogus-key"),
        ({"storage-driver": "zfs"}, "Docker did not start"),
    ],
)
def test_docker_settings_it_cannot_start_with_are_taken_back(node, options, sentence):
    before = settings(node)
    with pytest.raises(StepFailed, match=sentence):
        node.play("docker", docker_daemon_options=options)
    assert settings(node) == before
    assert node.run("systemctl is-active docker").strip() == "active"


def test_docker_is_only_reloaded_where_that_is_enough(node):
    before = node.run("systemctl show -p MainPID docker")
    assert node.changed("docker", docker_daemon_options={"max-concurrent-downloads": 7}) == 1
    assert node.run("systemctl show -p MainPID docker") == before


@pytest.mark.slow
def test_a_person_who_is_no_longer_declared_cannot_log_in(node):
    ada = {"name": "ada", "public_keys": ["ssh-ed25519 AAAAC3Nza ada"], "sudo": True}
    node.play("base", base_users=[ada])
    assert "ada" in node.run("cat /etc/sudoers.d/60-gpuferry /home/ada/.ssh/authorized_keys")
    node.play("base", base_users=[])
    assert "ada" not in node.run("cat /etc/sudoers.d/60-gpuferry; ls /home/ada/.ssh")


def test_an_account_of_others_keeps_its_shell_and_keys(node):
    node.run("useradd -m -s /bin/sh old; install -d -m 700 -o old -g old /home/old/.ssh;"
             " echo 'ssh-ed25519 AAAAold' > /home/old/.ssh/authorized_keys")  # fmt: skip
    node.play("base", base_users=[{"name": "old", "public_keys": ["ssh-ed25519 AAAAnew"]}])
    keys = node.run("cat /home/old/.ssh/authorized_keys").splitlines()
    assert keys == ["ssh-ed25519 AAAAold", "ssh-ed25519 AAAAnew"]
    assert node.run("getent passwd old").strip().endswith(":/bin/sh")
