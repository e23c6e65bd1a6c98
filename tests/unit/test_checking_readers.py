"""Texts recorded on servers are read correctly, and what is not understood is not waved through."""

import json

import pytest

from gpuferry.checking.accounts import account_problems, judge_logins
from gpuferry.checking.container import is_bounded_log
from gpuferry.checking.expectations import Expectations
from gpuferry.checking.exposure import expected_openings, judge_probe, ports_to_probe
from gpuferry.checking.nft import Opening, collapse, parse_ruleset
from gpuferry.checking.node import Reading
from gpuferry.checking.sockets import Listener, parse_listeners, reachable_listeners
from gpuferry.checking.sshd_config import deviations, parse_effective
from gpuferry.checking.system_state import judge_state


def expectations(**fields):
    return Expectations.model_validate({"hostname": "a", "user": "u", "roles": [], **fields})


# nft's JSON, cut down to what differs from case to case.
def match(left, right, op="=="):
    return {"match": {"op": op, "left": left, "right": right}}


def payload(protocol, field):
    return {"payload": {"protocol": protocol, "field": field}}


ACCEPT, DROP = {"accept": None}, {"drop": None}
DPORT = payload("tcp", "dport")
SOURCE = payload("ip", "saddr")
TEN = {"prefix": {"addr": "10.0.0.0", "len": 8}}
NEW_DNAT = [
    match({"ct": {"key": "status"}}, "dnat", "in"),
    match({"ct": {"key": "state"}}, "new", "in"),
]
ORIGINAL = {"ct": {"key": "proto-dst", "dir": "original"}}


def table(*rules, policy="drop", sets=(), forward=(), published=()):
    chains = [
        {"chain": {"name": "input", "hook": "input", "policy": policy}},
        {"chain": {"name": "forwarded", "hook": "forward", "policy": "accept"}},
        {"chain": {"name": "published"}},
    ]
    by_chain = {"input": rules, "forwarded": forward, "published": published}
    told = [{"rule": {"chain": c, "expr": e}} for c, es in by_chain.items() for e in es]
    return json.dumps({"nftables": [*chains, *({"set": s} for s in sets), *told]})


@pytest.mark.parametrize(
    ("rule", "openings"),
    [
        ([match(DPORT, 22), ACCEPT], {"22/tcp from anywhere"}),
        (
            [match(DPORT, {"set": [80, 443]}), ACCEPT],
            {"80/tcp from anywhere", "443/tcp from anywhere"},
        ),
        ([match(DPORT, {"range": [1, 2]}), ACCEPT], {"1/tcp from anywhere", "2/tcp from anywhere"}),
        ([match(DPORT, "@ports"), ACCEPT], {"7/tcp from anywhere"}),
        ([match(SOURCE, TEN), match(DPORT, 22), ACCEPT], {"22/tcp from 10.0.0.0/8"}),
        ([match(SOURCE, "10.1.2.3"), match(DPORT, 22), ACCEPT], {"22/tcp from 10.1.2.3/32"}),
        ([match(payload("udp", "dport"), 53), ACCEPT], {"53/udp from anywhere"}),
        (
            [match({"meta": {"key": "l4proto"}}, {"set": ["tcp", "udp"]}), match(DPORT, 9), ACCEPT],
            {"9/tcp from anywhere"},
        ),
        ([match({"meta": {"key": "l4proto"}}, {"set": [1, 58]}), ACCEPT], set()),
        (
            [match({"meta": {"key": "l4proto"}}, 17), match(payload("th", "dport"), 53), ACCEPT],
            {"53/udp from anywhere"},
        ),
        ([match(DPORT, 22), DROP], set()),
        ([match({"ct": {"key": "state"}}, ["established", "related"], "in"), ACCEPT], set()),
        ([match({"meta": {"key": "iifname"}}, "lo"), ACCEPT], set()),
        ([match({"meta": {"key": "l4proto"}}, {"set": ["icmp", "ipv6-icmp"]}), ACCEPT], set()),
        ([match(payload("udp", "sport"), 67), match(payload("udp", "dport"), 68), ACCEPT], set()),
    ],
)
def test_accepting_rules_become_openings(rule, openings):
    ruleset = parse_ruleset(table(rule, sets=[{"name": "ports", "elem": [7]}]))
    assert {str(opening) for opening in ruleset.openings} == openings
    assert ruleset.unexplained == []


@pytest.mark.parametrize(
    "rule",
    [
        [ACCEPT],
        [match({"meta": {"key": "iifname"}}, "eth0"), ACCEPT],
        [match(SOURCE, TEN), ACCEPT],
        [match(DPORT, 22, "!="), ACCEPT],
        [match({"ct": {"key": "state"}}, ["established", "new"], "in"), ACCEPT],
        [match({"meta": {"key": "mark"}}, 7), ACCEPT],
        [match(DPORT, 22), {"jump": {"target": "elsewhere"}}],
    ],
)
def test_an_accepting_rule_that_is_not_understood_is_reported(rule):
    ruleset = parse_ruleset(table(rule))
    assert len(ruleset.unexplained) == 1


@pytest.mark.parametrize(
    ("forward", "published", "expected"),
    [
        ([], [], None),
        ([[*NEW_DNAT, {"jump": {"target": "published"}}]], [[DROP]], set()),
        # Without the last drop the chain guards nothing.
        ([[*NEW_DNAT, {"jump": {"target": "published"}}]], [[match(ORIGINAL, 80), ACCEPT]], None),
        # A jump for one interface only leaves the others open.
        (
            [
                [
                    match({"meta": {"key": "iifname"}}, "eth0"),
                    *NEW_DNAT,
                    {"jump": {"target": "published"}},
                ]
            ],
            [[DROP]],
            None,
        ),
        (
            [[*NEW_DNAT, {"jump": {"target": "published"}}]],
            [[match({"meta": {"key": "l4proto"}}, "tcp"), match(ORIGINAL, 80), ACCEPT], [DROP]],
            {Opening(80, "tcp")},
        ),
    ],
)
def test_published_ports_are_guarded_only_by_a_chain_that_ends_in_drop(
    forward, published, expected
):
    assert parse_ruleset(table(forward=forward, published=published)).published == expected


def test_a_table_that_does_not_exist_has_no_policy():
    assert parse_ruleset("").input_policy == ""


def test_neighbouring_sources_are_merged_as_nftables_merges_them():
    halves = {Opening(22, "tcp", "10.0.0.0/9"), Opening(22, "tcp", "10.128.0.0/9")}
    assert collapse(halves) == {Opening(22, "tcp", "10.0.0.0/8")}


SS = """\
udp UNCONN 0 0 127.0.0.53%lo:53 0.0.0.0:*
tcp LISTEN 0 128 0.0.0.0:22 0.0.0.0:*
tcp LISTEN 0 128 [::]:22 [::]:*
tcp LISTEN 0 128 *:9100 *:*
tcp LISTEN 0 128 [::1]:631 [::]:*
tcp LISTEN 0 128 [::ffff:127.0.0.1]:8005 *:*
tcp LISTEN 0 128 [::ffff:10.0.0.5]:8006 *:*
tcp LISTEN 0 128 [fe80::1]%eth0:546 [::]:*
"""


def test_loopback_in_all_its_forms_is_told_from_the_world():
    ports = {listener.port for listener in reachable_listeners(SS)}
    assert ports == {22, 9100, 8006, 546}
    assert Listener("tcp", 22, "::") in parse_listeners(SS)
    assert Listener("tcp", 9100, "*") in parse_listeners(SS)


DECLARED = expectations(
    ssh_from=["10.0.0.0/8"], open_ports=[{"port": 80}, {"port": 90, "from": ["10.0.0.0/8"]}]
)


@pytest.mark.parametrize(
    ("answers", "source", "problems"),
    [
        ({80: "open", 90: "open", 111: "silent"}, "10.1.1.1", []),
        ({80: "closed", 111: "silent"}, "10.1.1.1", []),
        ({80: "silent"}, "10.1.1.1", ["declared but filtered: 80"]),
        ({90: "open"}, "192.0.2.1", ["open but not declared: 90"]),
        ({90: "silent"}, "192.0.2.1", []),
        ({90: "open", 111: "open"}, "", ["open but not declared: 111"]),
        (
            {111: "closed"},
            "::ffff:10.1.1.1",
            ["not filtered (nobody listens, yet the server answers): 111"],
        ),
    ],
)
def test_what_answers_from_outside_is_compared_with_what_may(answers, source, problems):
    assert judge_probe(DECLARED, answers, source) == problems


def test_the_ssh_port_is_never_knocked_at_and_listeners_always_are():
    ports = ports_to_probe(DECLARED, [Listener("tcp", 4444, "*"), Listener("udp", 5555, "*")])
    assert {80, 90, 4444} <= set(ports)
    assert not {22, 5555} & set(ports)


def test_expected_openings_hold_ssh_unless_it_is_left_out():
    assert Opening(22, "tcp", "10.0.0.0/8") in expected_openings(DECLARED)
    assert {o.port for o in expected_openings(DECLARED, ssh=False)} == {80, 90}


HARDENED = """\
permitrootlogin no
passwordauthentication no
kbdinteractiveauthentication no
permitemptypasswords no
hostbasedauthentication no
pubkeyauthentication yes
permituserenvironment no
ignorerhosts yes
strictmodes yes
x11forwarding no
allowagentforwarding no
allowtcpforwarding local
gatewayports no
permittunnel no
loglevel VERBOSE
maxauthtries 6
logingracetime 30
ciphers chacha20-poly1305@openssh.com,aes256-gcm@openssh.com
macs hmac-sha2-512-etm@openssh.com,umac-128-etm@openssh.com
kexalgorithms mlkem768x25519-sha256,curve25519-sha256,diffie-hellman-group16-sha512
"""


def test_a_hardened_sshd_has_no_deviations():
    assert deviations(parse_effective(HARDENED)) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "permitrootlogin no",
            "permitrootlogin prohibit-password",
            "permitrootlogin prohibit-password",
        ),
        ("passwordauthentication no", "passwordauthentication yes", "passwordauthentication yes"),
        ("maxauthtries 6", "maxauthtries 0", "maxauthtries 0"),
        ("logingracetime 30", "logingracetime 120", "logingracetime 120"),
        ("umac-128-etm@openssh.com", "hmac-sha1", "macs hmac-sha1 (want none of these)"),
        (
            "curve25519-sha256,",
            "diffie-hellman-group1-sha1,",
            "kexalgorithms diffie-hellman-group1-sha1",
        ),
        ("strictmodes yes\n", "", "strictmodes not told"),
        ("ciphers", "ciphers aes128-cbc\nciphers", "ciphers aes128-cbc"),
    ],
)
def test_each_softened_setting_is_named(before, after, said):
    found = deviations(parse_effective(HARDENED.replace(before, after, 1)))
    assert len(found) == 1
    assert found[0].startswith(said)


def test_no_answer_of_sshd_is_not_a_hardened_sshd():
    assert len(deviations(parse_effective(""))) > 10


def an_account(keys=("ssh-ed25519 AAAAone ada",), full_name="gpuferry user", rights=""):
    return {"keys": list(keys), "full_name": full_name, "rights": rights}


@pytest.mark.parametrize(
    ("account", "sudo", "problems"),
    [
        (an_account(), False, []),
        (an_account(keys=['from="10.0.0.1" ssh-ed25519 AAAAone other comment']), False, []),
        (None, False, ["ada: no account"]),
        (an_account(keys=[]), False, ["ada: 1 declared key(s) missing"]),
        (
            an_account(keys=["x AAAAone", "x AAAAtwo"]),
            False,
            ["ada: 1 key(s) that are not declared"],
        ),
        (an_account(keys=["x AAAAone", "x AAAAtwo"], full_name="Ada"), False, []),
        (an_account(), True, ["ada: sudo is not allowed, declared allowed"]),
        (
            an_account(rights="(ALL : ALL) NOPASSWD: ALL"),
            False,
            ["ada: sudo is allowed, declared not allowed"],
        ),
    ],
)
def test_accounts_are_compared_with_their_declaration(account, sudo, problems):
    user = {"name": "ada", "public_keys": ["ssh-ed25519 AAAAone"], "sudo": sudo}
    users = expectations(users=[user]).users
    assert account_problems(users, {"ada": account} if account else {}) == problems


def a_login(name, *keys, sudo=False, docker=False):
    return {"name": name, "keys": list(keys), "sudo": sudo, "docker": docker}


OWN = a_login(
    "ferry",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl stack",
    sudo=True,
)


@pytest.mark.parametrize(
    ("logins", "status", "measured"),
    [
        ([OWN], "pass", "none but these"),
        ([OWN, a_login("ada", "ssh-ed25519 AAAAtwo")], "pass", "none but these"),
        ([OWN, a_login("guest"), a_login("old", "# x AAAA", "")], "pass", "none but these"),
        ([OWN, a_login("eve", "x AAAAone")], "fail", "not declared: eve (1 key)"),
        (
            [a_login("eve", "x AAAAone", "y AAAAtwo", sudo=True, docker=True), OWN],
            "fail",
            "not declared: eve (2 keys, with sudo and docker)",
        ),
    ],
)
def test_a_key_of_somebody_who_is_not_declared_is_named(logins, status, measured):
    answer = judge_logins("ferry", ["ada"], logins)
    assert (answer.status, answer.measured, answer.expected) == (
        status,
        measured,
        "only ada, ferry",
    )
    # What ssh-keygen -l says of it.
    assert answer.evidence == "keys of ferry: SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"


@pytest.mark.parametrize(
    ("state", "failed", "good", "evidence"),
    [
        ("running", "", True, "failed units: none"),
        ("degraded", "Id=a.service\nTransient=no\n", False, "failed units: a.service"),
        (
            "degraded",
            "Id=run-p1.service\nTransient=yes\n\nId=job.service\nTransient=yes\n",
            True,
            "failed units: none; failed jobs, which do not count: run-p1.service, job.service",
        ),
        (
            "degraded",
            "Id=run-p1.service\nTransient=yes\n\nId=a.service\nTransient=no\n",
            False,
            "failed units: a.service; failed jobs, which do not count: run-p1.service",
        ),
        (
            "degraded",
            "Id=gpuferry-x.service\nTransient=yes\n",
            False,
            "failed units: gpuferry-x.service",
        ),
        ("degraded", "", False, "failed units: none"),
        (
            "starting",
            "Id=run-p1.service\nTransient=yes\n",
            False,
            "failed units: none; failed jobs, which do not count: run-p1.service",
        ),
    ],
)
def test_a_job_that_failed_is_no_fault_of_the_server(state, failed, good, evidence):
    judged = judge_state(Reading(0 if good else 1, f"{state}\n", ""), Reading(0, failed, ""))
    assert judged == (good, state, evidence)


@pytest.mark.parametrize(
    ("driver", "options", "bounded"),
    [
        ("json-file", {}, False),
        ("json-file", {"max-file": "3"}, False),
        ("json-file", {"max-size": "50m"}, True),
        ("local", {}, True),
        ("journald", {}, True),
    ],
)
def test_only_a_bounded_log_cannot_fill_the_disk(driver, options, bounded):
    assert is_bounded_log(driver, options) is bounded


def test_unknown_expectations_are_refused():
    with pytest.raises(ValueError, match="colour"):
        expectations(colour="blue")
