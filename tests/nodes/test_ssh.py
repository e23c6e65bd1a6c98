"""SSH as ssh-audit, other people's files and every client of ours meet it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuferry import keys
from gpuferry.checking import run_checks, ssh_audit
from gpuferry.checking.job import Target
from gpuferry.errors import StepFailed
from gpuferry.verdict import Verdict
from tests.support import clients
from tests.support.marks import slow
from tests.support.node import Node, NodeMaker

VENDOR = "/etc/ssh/sshd_config.d/50-cloud-init.conf"


@pytest.fixture(scope="module", params=["debian-13", *slow("debian-12")])
def node(request: pytest.FixtureRequest, new_node: NodeMaker) -> Node:
    node = new_node(request.param)
    node.run(f"echo 'PasswordAuthentication yes' > {VENDOR}")
    node.play("ssh_hardening")
    return node


def verdicts(node: Node) -> dict[str, Verdict]:
    expected = {"hostname": "node", "user": node.server.user, "roles": ["ssh_hardening"]}
    found = run_checks([node.server], {node.server.name: expected}, select=["ssh_hardening"])
    return {v.id: v for v in found}


def audited(node: Node, profile: str) -> ssh_audit.Judged:
    release = node.run(". /etc/os-release; echo $ID $VERSION_ID").split()
    name = ssh_audit.policy(ssh_audit.available(), *release)
    target = Target(**node.server.model_dump(include=set(Target.model_fields)))
    code, report = ssh_audit.audit(target, node.session.config_path, name)
    return ssh_audit.judge(report, code, profile)


def test_nothing_to_change_the_second_time(node: Node) -> None:
    assert node.changed("ssh_hardening") == 0


def test_ssh_audit_finds_what_is_written_down_and_nothing_else(node: Node) -> None:
    found = audited(node, "compatible")
    assert found.ok, found
    debian_12 = node.args is not None and node.args.image == "debian-12"
    assert ("exit 0" in found.measured) is debian_12
    assert found.evidence == (
        "" if debian_12 else f"Key exchanges: {', '.join(ssh_audit.CLASSICAL)}"
    )


def test_the_audit_shuts_nobody_out(node: Node) -> None:
    for _ in range(2):
        audited(node, "compatible")
    assert clients.by_openssh(node) == node.server.user


def test_a_vendors_file_is_named_and_left_where_it_is(node: Node) -> None:
    found = verdicts(node)
    assert {v.status for v in found.values()} == {"pass"}, found
    assert (
        f"{VENDOR}:1 passwordauthentication yes" in found["ssh_hardening.foreign_settings"].evidence
    )
    assert node.run(f"cat {VENDOR}") == "PasswordAuthentication yes\n"


def test_a_file_that_is_read_before_ours_is_refused_by_name(node: Node) -> None:
    node.run(
        "printf 'Match User root\\n PermitRootLogin yes\\n' > /etc/ssh/sshd_config.d/00-a.conf"
    )
    try:
        with pytest.raises(StepFailed, match=r"00-a\.conf:2 permitrootlogin yes"):
            node.play("ssh_hardening")
        found = verdicts(node)["ssh_hardening.foreign_settings"]
        assert "00-a.conf:2 permitrootlogin yes" in found.measured
        # Not in force either way: this sshd has not read it yet.
        assert found.status == "fail"
    finally:
        node.run("rm /etc/ssh/sshd_config.d/00-a.conf")
    assert node.changed("ssh_hardening") == 0


def test_only_the_declared_may_forward_ports(node: Node) -> None:
    pair = keys.ssh_key_pair("")
    for name in ("ada", "bob"):
        node.run(
            f"useradd -m {name}; install -d -m 700 -o {name} /home/{name}/.ssh; "
            f"echo '{pair['public']}' > /home/{name}/.ssh/authorized_keys"
        )
    node.play("ssh_hardening", ssh_hardening_forwarding_users=["ada"])
    assert clients.may_forward(node, "ada", pair["private"])
    gateway = node.network["subnet4"].replace(".0/24", ".1")
    assert not clients.may_forward(node, "ada", pair["private"], gateway)
    assert not clients.may_forward(node, "bob", pair["private"])
    with pytest.raises(StepFailed, match="names nobody-here"):
        node.play("ssh_hardening", ssh_hardening_forwarding_users=["nobody-here"])
    node.play("ssh_hardening")
    assert not clients.may_forward(node, "ada", pair["private"])


def test_with_post_quantum_key_exchanges_only_every_client_logs_in(
    node: Node, tmp_path: Path
) -> None:
    if "mlkem768x25519-sha256" not in node.run("ssh -Q kex 2>/dev/null || sshd -T"):
        with pytest.raises(StepFailed, match="paramiko"):
            node.play("ssh_hardening", ssh_hardening_kex_profile="pq_only")
    else:
        node.play("ssh_hardening", ssh_hardening_kex_profile="pq_only")
        found = audited(node, "pq_only")
        assert found.measured.startswith("exit 0"), found
    assert clients.by_openssh(node) == node.server.user
    assert clients.by_paramiko(node) == node.server.user
    assert clients.by_go(node, tmp_path) == node.server.user
