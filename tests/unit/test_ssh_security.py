"""SSH judged: dev-sec's controls, ssh-audit's policies, clients that must be able to connect."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpuferry.checking import ssh_audit, ssh_controls
from gpuferry.checking.ssh_controls import Known
from gpuferry.checking.sshd_config import broken_lines, deviations, forwarding_rule
from gpuferry.nodes import ssh_clients

GOOD = Known(
    settings={
        **{c["keyword"]: c["accepted"][0] for c in ssh_controls.controls() if "accepted" in c},
        "ciphers": "aes256-ctr",
        "kexalgorithms": "curve25519-sha256",
        "macs": "hmac-sha2-256-etm@openssh.com",
        "listenaddress": "0.0.0.0:22",
        "allowtcpforwarding": "no",
    },
    host_keys=("/etc/ssh/ssh_host_ed25519_key",),
    ports=("22",),
    folder="0 0 755",
    main_file="0 0 600",
    command_lines=("/usr/sbin/sshd -D",),
    banner="SSH-2.0-OpenSSH_10.0",
)
BREAKS: dict[str, dict[str, Any]] = {
    "sshd-01": {"settings": {**GOOD.settings, "ciphers": "aes256-cbc"}},
    "sshd-02": {"settings": {**GOOD.settings, "kexalgorithms": "ecdh-sha2-nistp256"}},
    "sshd-03": {"settings": {**GOOD.settings, "macs": "hmac-sha1"}},
    "sshd-04": {"folder": "0 0 775"},
    "sshd-05": {"main_file": "0 0 644"},
    "sshd-07": {"ports": ("22", "2222")},
    "sshd-09": {"settings": {**GOOD.settings, "listenaddress": ""}},
    "sshd-10": {"settings": {**GOOD.settings, "protocol": "1"}},
    "sshd-14": {"host_keys": ("/etc/ssh/ssh_host_dsa_key",)},
    "sshd-15": {"settings": {**GOOD.settings, "uselogin": "yes"}},
    "sshd-16": {"settings": {**GOOD.settings, "useprivilegeseparation": "no"}},
    "sshd-39": {"settings": {**GOOD.settings, "allowtcpforwarding": "local"}},
    "sshd-47": {"banner": "SSH-2.0-OpenSSH_10.0p2 Debian-7"},
    "sshd-48": {"smallest_modulus": 1535},
    "sshd-49": {"command_lines": ("/usr/sbin/sshd -D -oCiphers=3des-cbc",)},
    "sshd-50": {"rsa_bits": 3072},
}
for control in ssh_controls.controls():
    if "accepted" in control:
        settings = {**GOOD.settings, control["keyword"]: "bad"}
        BREAKS[control["id"]] = {"settings": settings}


def test_there_are_as_many_controls_as_dev_sec_has() -> None:
    assert len({c["id"] for c in ssh_controls.controls()}) == 49


def test_a_hardened_server_holds_all_of_them() -> None:
    outcomes = ssh_controls.judge(GOOD)
    assert ssh_controls.summary(outcomes) == "49/49, 0 waived"


@pytest.mark.parametrize("control", [c["id"] for c in ssh_controls.controls()])
def test_every_control_can_fail_or_be_waived(control: str) -> None:
    outcomes = ssh_controls.judge(dataclasses.replace(GOOD, **BREAKS[control]))
    broken = [o for o in outcomes if not o.holds]
    assert [o.id for o in broken] == [control]
    waived = next(c for c in ssh_controls.controls() if c["id"] == control).get("waiver", "")
    assert broken[0].waiver == waived
    assert ("failed" in ssh_controls.summary(outcomes)) is not bool(waived)


KEX = ["mlkem768x25519-sha256", "sntrup761x25519-sha512"]


def mismatch(field: str, actual: list[str], expected: list[str]) -> dict[str, Any]:
    return {"mismatched_field": field, "actual": actual, "expected_required": expected}


REPORTS = {
    "all as the policy says": ([], 0, "compatible", True, "exit 0"),
    "the classical ones beside, declared": (
        [mismatch("Key exchanges", [*KEX, *ssh_audit.CLASSICAL], KEX)], 3, "compatible", True,
        "4 classical"),
    "the classical ones beside, not declared": (
        [mismatch("Key exchanges", [*KEX, *ssh_audit.CLASSICAL], KEX)], 3, "pq_only", False,
        "curve25519"),
    "one classical one too many": (
        [mismatch("Key exchanges", [*KEX, *ssh_audit.CLASSICAL, "group1"], KEX)], 3, "compatible",
        False, "group1"),
    "a post-quantum one is missing": (
        [mismatch("Key exchanges", [KEX[0], *ssh_audit.CLASSICAL], KEX)], 3, "compatible", False,
        "Key exchanges"),
    "another cipher beside": (
        [mismatch("Key exchanges", [*KEX, *ssh_audit.CLASSICAL], KEX),
         mismatch("Ciphers", ["aes128-cbc"], ["aes256-ctr"])], 3, "compatible", False,
        "aes128-cbc"),
    "another order": (
        [mismatch("MACs", ["b", "a"], ["a", "b"])], 3, "compatible", False, "another order"),
    "no answer": ([], 1, "compatible", False, "exit 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", REPORTS)
def test_what_may_deviate_from_the_policy(case: str) -> None:
    errors, code, profile, ok, words = REPORTS[case]
    report = {"policy": "Hardened X", "errors": errors, "passed": not errors}
    found = ssh_audit.judge(report, code, profile)
    assert found.ok is ok
    assert words in found.measured


@pytest.mark.parametrize(
    ("os_id", "version", "name"),
    [
        ("debian", "12", "Hardened Debian 12 (version 3)"),
        ("debian", "13", "Hardened Debian 13 (version 1)"),
        ("ubuntu", "24.04", "Hardened Ubuntu Server 24.04 LTS (version 2)"),
        ("debian", "11", ""),
    ],
)
def test_the_policy_of_each_distribution_is_in_the_pinned_ssh_audit(
    os_id: str, version: str, name: str
) -> None:
    assert ssh_audit.policy(ssh_audit.available(), os_id, version) == name


@pytest.mark.parametrize(
    ("version", "speaks"),
    [("1.0.5", False), ("1.1.0", False), ("1.1.1", True), ("1.2.1", True), ("2.0.0", True)],
)
def test_which_release_of_the_command_plugin_speaks_ml_kem(version: str, speaks: bool) -> None:
    left_out = ssh_clients.without_common(
        {"plugin": ssh_clients.plugin_kex(version)}, ["mlkem768x25519-sha256"]
    )
    assert (left_out == []) is speaks


def test_a_client_with_nothing_in_common_is_named() -> None:
    clients = {"old": ["curve25519-sha256"], "new": ["mlkem768x25519-sha256"]}
    assert ssh_clients.without_common(clients, ["mlkem768x25519-sha256"]) == ["old"]


def test_every_client_of_this_machine_is_asked() -> None:
    clients = ssh_clients.here()
    assert [name.split()[0] for name in clients] == ["OpenSSH", "paramiko", "Pulumi's"]
    assert ssh_clients.without_common(clients, ssh_audit.CLASSICAL) == []


@pytest.mark.parametrize(
    ("user", "value", "ok"),
    [("ada", "local", True), ("ada", "no", False), ("bob", "no", True), ("bob", "local", False),
     ("ada", "yes", False)],
)  # fmt: skip
def test_only_declared_people_may_forward_ports(user: str, value: str, ok: bool) -> None:
    found = deviations({"allowtcpforwarding": value}, [forwarding_rule(user, ["ada"])])
    assert (found == []) is ok


def test_lines_that_ask_for_something_weaker_are_found() -> None:
    said = [("passwordauthentication", "yes"), ("permitrootlogin", "no"), ("banner", "/etc/issue")]
    settings = [{"keyword": k, "value": v} for k, v in said]
    assert [s["keyword"] for s in broken_lines(settings)] == ["passwordauthentication"]
