"""A server as providers really hand it over: converged twice, and looked at from outside."""

from __future__ import annotations

import json
import socket
from typing import Any

import paramiko
import pytest

from gpuferry import exposure
from gpuferry.checking import run_checks
from gpuferry.checking.scan import Scan, compare, scan_all
from gpuferry.converge.run import converge
from gpuferry.prepare import packages
from gpuferry.verdict import Verdict
from tests.support.marks import slow
from tests.support.node import Node, NodeMaker

ROLES = ["base", "ssh_hardening", "firewall", "docker", "updates"]
FILES = {
    "/etc/ssh/sshd_config.d/50-cloud-init.conf": "PasswordAuthentication yes\n",
    "/etc/ssh/sshd_config.d/60-vendor.conf": "PermitRootLogin yes\nMaxAuthTries 20\n",
    "/etc/docker/daemon.json": '{"debug": true, "dns": ["192.0.2.53"]}\n',
    "/etc/systemd/system/docker.service.d/vendor.conf": (
        "[Service]\nEnvironment=DOCKER_ALLOW_IPV6_ON_IPV4_INTERFACE=1 VENDOR=yes\n"
    ),
}
SERVE = "systemd-run -q --unit=serve-{0} busybox httpd -f -p {0} -h /etc/motd.d"
SEED = f"""
apt-get -q update; apt-get -q -y install --no-install-recommends docker.io docker-cli iptables \
  nftables busybox-static
mkdir -p /etc/motd.d
iptables -A INPUT -p tcp --dport 9999 -j ACCEPT -m comment --comment vendor
nft 'add table inet vendor; add chain inet vendor c {{ type filter hook input priority 10; }}
  add rule inet vendor c tcp dport 9999 accept'
useradd -m guest; echo 'guest:letmein' | chpasswd
{SERVE.format(9999)}; {SERVE.format(8888)}
tar -C / -c usr/bin/busybox | docker import - database >/dev/null
docker run -q -d --restart=always --name database -p 5432:5432 database \
  /usr/bin/busybox httpd -f -p 5432
"""
FOREIGN = "nft -s list table inet vendor; iptables -S INPUT"
OTHERS = "nft -s list ruleset 2>/dev/null | sed '/^table inet gpuferry/,/^}/d'"
# No encrypted volume and no object store is declared here, and the page says so.
NOT_DECLARED = {
    "security.bucket_encryption",
    "security.encryption_at_rest",
    "security.encryption_in_transit",
}
PORTS: list[dict[str, Any]] = [{"port": 8888}]


@pytest.fixture(scope="module")
def node(new_node: NodeMaker) -> Node:
    packages.install_missing(print, packages.TESTERS)
    node = new_node()
    for path, text in FILES.items():
        node.run(f"mkdir -p $(dirname {path}); cat > {path} <<'END'\n{text}END")
    node.run(SEED, 300)
    return node


def converged(node: Node, **how: bool) -> list[str]:
    """Tasks that changed something."""
    variables = node.variables(
        *ROLES, firewall_open_ports=PORTS, docker_daemon_options={}, base_packages_ahead=[]
    )
    entry = node.entry().model_copy(update={"variables": variables})
    (done,) = converge([entry], say=node.said.append, **how)
    return done.changed_tasks


def verdicts(node: Node, *select: str) -> dict[str, Verdict]:
    expected = {
        "hostname": "node",
        "user": node.server.user,
        "roles": ROLES,
        "kind": "container",
        "ssh_from": [node.network["subnet4"], node.network["subnet6"]],
        "open_ports": PORTS,
    }
    found = run_checks([node.server], {node.server.name: expected}, select=list(select) or None)
    return {v.id: v for v in found}


def rows(node: Node, *more: dict[str, Any]) -> list[exposure.Row]:
    networks = [node.network["subnet4"], node.network["subnet6"]]
    return exposure.table(22, networks, [*PORTS, *more])


def seen(node: Node) -> list[Scan]:
    """The interesting ports from this machine, over both families."""
    addresses = [node.server.address, str(node.server.provider_facts["address6"])]
    return scan_all(addresses, node.network["subnet4"].replace(".0/24", ".1"), "22,5432,8000-10000")


def answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), 3):
            return True
    except OSError:
        return False


def test_before_it_is_as_open_as_it_was_handed_over(node: Node) -> None:
    """What makes the other tests able to fail."""
    assert all(answers(node.server.address, port) for port in (5432, 8888, 9999))
    found = verdicts(node, "ssh_hardening", "firewall")
    failed = {name for name, v in found.items() if v.status == "fail"}
    assert {"ssh_hardening.password_refused", "ssh_hardening.effective_config"} <= failed
    assert {"firewall.policy", "firewall.from_outside", "firewall.published_ports"} <= failed


def test_converging_twice_changes_once_and_leaves_what_is_others(node: Node) -> None:
    before = node.run(FOREIGN)
    assert converged(node) != []
    assert node.run(FOREIGN) == before
    everything = node.run(OTHERS)
    assert converged(node, full=True) == []
    assert node.run(OTHERS) == everything
    for path, text in FILES.items():
        if path != "/etc/docker/daemon.json":
            assert node.run(f"cat {path}") == text
    settings = json.loads(node.run("cat /etc/docker/daemon.json"))
    assert (settings["debug"], settings["dns"]) == (True, ["192.0.2.53"])


def test_the_default_checks_pass(node: Node) -> None:
    bad = {name: v.measured for name, v in verdicts(node).items() if v.status == "fail"}
    assert bad == {}


def test_a_stranger_finds_exactly_what_is_declared(node: Node) -> None:
    found = verdicts(node, "security", "firewall")
    unmeasured = {name for name, v in found.items() if v.status == "not_measured"}
    assert unmeasured == NOT_DECLARED
    assert {v.status for n, v in found.items() if n not in unmeasured} == {"pass"}, found
    assert "all TCP ports of " + node.server.address in found["security.exposure"].evidence
    assert str(node.server.provider_facts["address6"]) in found["security.exposure"].evidence
    assert answers(node.server.address, 8888)
    assert not answers(node.server.address, 5432)
    # On the server itself the database is there.
    node.run("exec 3<>/dev/tcp/127.0.0.1/5432")


def test_an_account_that_nobody_declared_is_named_while_a_key_opens_it(node: Node) -> None:
    node.run(
        "useradd -m -s /bin/bash builder; usermod -aG docker builder\n"
        "echo 'builder ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/90-builder\n"
        f"cp -r ~{node.server.user}/.ssh ~builder/; chown -R builder: ~builder/.ssh"
    )
    found = verdicts(node, "security.accounts")["security.accounts"]
    assert found.status == "fail"
    assert found.measured == "not declared: builder (1 key, with sudo and docker)"
    node.run("rm ~builder/.ssh/authorized_keys /etc/sudoers.d/90-builder")
    assert verdicts(node, "security.accounts")["security.accounts"].status == "pass"


def test_a_job_that_failed_is_no_fault_of_the_server(node: Node) -> None:
    node.run("systemd-run -q --wait --unit=somebodys-job false || true")
    assert "degraded" in node.run("systemctl is-system-running || true")
    found = verdicts(node, "base.system_state")["base.system_state"]
    assert (found.status, "somebodys-job.service" in found.evidence) == ("pass", True)
    node.run("systemctl reset-failed")


def test_an_open_port_too_many_and_one_too_few_are_both_found(node: Node) -> None:
    node.run("nft insert rule inet gpuferry published ct original proto-dst 5432 accept")
    extra = compare(rows(node), seen(node)).problems
    assert extra == ["5432/tcp IPv4 is open, and not declared"]
    node.run("systemctl reload gpuferry-firewall")
    missing = compare(rows(node, {"port": 9000}), seen(node)).problems
    assert missing == [f"9000/tcp IPv{family} is declared, and filtered" for family in (4, 6)]


@pytest.mark.parametrize("what", ["reload", "docker", *slow("restart", "server")])
def test_the_same_is_seen_after_a(node: Node, what: str) -> None:
    if what == "server":
        node.restart()
        node.run(f"{SERVE.format(9999)}; {SERVE.format(8888)}")
        node.run("for _ in $(seq 100); do docker ps -q | grep -q . && exit; sleep 0.2; done; false")
    elif what == "docker":
        node.run("systemctl restart docker")
    else:
        before = node.run(OTHERS)
        node.run(f"systemctl {what} gpuferry-firewall")
        assert node.run(OTHERS) == before
    assert compare(rows(node), seen(node)).problems == []


def test_a_known_password_opens_nothing(node: Node) -> None:
    for user, password in (("guest", "letmein"), ("root", "letmein")):
        with socket.create_connection((node.server.address, 22), 10) as sock:
            transport = paramiko.Transport(sock)
            transport.start_client(timeout=10)
            with pytest.raises(paramiko.BadAuthenticationType):
                transport.auth_password(user, password, fallback=False)
            transport.close()
