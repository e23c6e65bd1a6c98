"""The role ssh_hardening: what sshd does, not what its files say."""

import json
import shlex

import pytest

from gpuferry.checking import ssh_controls
from gpuferry.checking.knock import knock, try_key
from gpuferry.checking.mark import check
from gpuferry.checking.sshd_config import (
    RULES,
    broken_lines,
    deviations,
    forwarding_rule,
    parse_effective,
)
from gpuferry.nodes.ssh_failure import fingerprint
from gpuferry.shared import shared, source

WRONG_KEY = "find out who answers at this address before you log in again"


# What a login cannot tell: modes, sshd's command line, the groups for Diffie-Hellman, other files.
FILES = {
    "folder": "stat -c '%u %g %a' /etc/ssh",
    "main_file": "stat -c '%u %g %a' /etc/ssh/sshd_config",
    "daemons": "ps -C sshd -o ppid=,args=",
    "modulus": "awk '$5 ~ /^[0-9]+$/ {print $5}' $(ls /etc/ssh/gpuferry_moduli /etc/ssh/moduli"
    " 2>/dev/null | head -1) /dev/null | sort -n | head -1",
    "rsa": "ssh-keygen -l -f /etc/ssh/gpuferry_host_rsa_4096_key",
    "settings": "python3 -c "
    + shlex.quote(f"import json\n{source('sshd_files')}\nprint(json.dumps(lines()))"),
}


@pytest.fixture(scope="module")
def readings(node, expectations):
    """Everything in one round trip; sshd's settings per user, as a Match may hold for one only."""
    users = dict.fromkeys(["root", expectations.user, *(u.name for u in expectations.users)])
    client = "host=client.invalid,addr=$(echo ${SSH_CONNECTION:-127.0.0.1} | cut -d' ' -f1)"
    commands = {f"user {user}": f"sshd -T -C user={user},{client}" for user in users}
    return node.read(**commands, **FILES)


@pytest.fixture(scope="module")
def effective(readings):
    return {n.removeprefix("user "): r for n, r in readings.items() if n.startswith("user ")}


@pytest.fixture(scope="module")
def answers(target, key_path):
    return knock(target, key_path)


@check("ssh_hardening.effective_config", severity="critical")
def test_effective_config(effective, expectations, verdict):
    """sshd's effective settings are the hardened ones, for every user."""
    problems = {}
    for user, reading in effective.items():
        rules = (*RULES, forwarding_rule(user, expectations.ssh.port_forwarding))
        for text in deviations(parse_effective(reading.text), rules):
            problems.setdefault(text, []).append(user)
    users = ", ".join(effective)
    measured = "; ".join(problems) or f"all hold for {users}"
    verdict.judge(not problems, measured=measured, expected="hardened", evidence=f"users: {users}")


@check("ssh_hardening.controls")
def test_controls(effective, readings, answers, expectations, verdict):
    """dev-sec's controls for an SSH server hold, but for the waivers that are written down."""
    text = effective["root"].text
    daemons = [line.split(None, 1) for line in readings["daemons"].output.splitlines()]
    outcomes = ssh_controls.judge(
        ssh_controls.Known(
            settings=parse_effective(text),
            host_keys=tuple(x.split()[1] for x in text.splitlines() if x.startswith("hostkey ")),
            ports=tuple(x.split()[1] for x in text.splitlines() if x.startswith("port ")),
            wanted_port=str(expectations.ssh_port),
            folder=readings["folder"].text,
            main_file=readings["main_file"].text,
            smallest_modulus=int(readings["modulus"].text or 0),
            rsa_bits=int((readings["rsa"].text or "0").split()[0]),
            # Those that systemd started; the others are sessions, with titles of their own.
            command_lines=tuple(line[1] for line in daemons if line[0] == "1"),
            banner=answers.version,
        )
    )
    failed = [f"{o.id} {o.title}: {o.said}" for o in outcomes if not o.holds and not o.waiver]
    waived = "; ".join(f"{o.id} {o.title} ({o.said}): {o.waiver}" for o in outcomes if o.waiver)
    verdict.judge(
        not failed,
        measured="; ".join([ssh_controls.summary(outcomes), *failed]),
        expected="all hold or are waived",
        evidence=f"waived: {waived}" if waived else "",
    )


@check("ssh_hardening.foreign_settings")
def test_foreign_settings(readings, effective, verdict):
    """What other files say against the hardening is not in force."""
    files = shared("sshd_files")
    settings = json.loads(readings["settings"].text)
    broken = [s for s in broken_lines(settings) if s["path"] != files.OURS]
    told = parse_effective(effective["root"].text)
    in_force = [
        s
        for s in broken
        if s["before_ours"] and (s["match"] or told.get(s["keyword"]) == s["value"].lower())
    ]
    places = ", ".join(files.place(s) for s in broken)
    counted = f"{len(broken)} contradicting lines, none in force"
    verdict.judge(
        not in_force,
        measured=", ".join(files.place(s) for s in in_force) or counted,
        expected="none in force",
        evidence=f"neutralised, and left where they are: {places}" if places else "",
    )


@check("ssh_hardening.password_refused", severity="critical")
def test_password_refused(answers, verdict):
    """The server offers no password login and refuses one that is tried all the same."""
    offered = ", ".join(answers.methods)
    verdict.judge(
        answers.methods == ("publickey",) and answers.outcome == "not offered",
        measured=f"offers {offered}; a password was {answers.outcome}",
        expected="offers publickey; a password is not offered",
        evidence=f"login of {answers.user!r} tried from the controller",
    )


@check("ssh_hardening.root_refused", severity="critical")
def test_root_refused(effective, target, key_path, ssh_config, verdict):
    """root cannot log in, not even with the stack's key."""
    setting = parse_effective(effective["root"].text).get("permitrootlogin", "not told")
    attempt = try_key(target, "root", key_path, ssh_config)
    verdict.judge(
        attempt == "refused" and setting == "no",
        measured=f"login with the stack's key {attempt}; permitrootlogin {setting}",
        expected="login refused; permitrootlogin no",
    )


@check("ssh_hardening.host_key", severity="critical", next_step=WRONG_KEY)
def test_host_key(answers, target, verdict):
    """A new connection meets the pinned host key."""
    verdict.judge(
        answers.host_key == target.host_key,
        measured=fingerprint(answers.host_key),
        expected=fingerprint(target.host_key),
    )
