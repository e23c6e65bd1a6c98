"""The role ssh_hardening: what sshd does, not what its files say."""

import pytest

from gpuferry.checking.knock import knock, try_key
from gpuferry.checking.mark import check
from gpuferry.checking.sshd_config import deviations, parse_effective
from gpuferry.nodes.ssh_failure import fingerprint

WRONG_KEY = "find out who answers at this address before you log in again"


@pytest.fixture(scope="module")
def effective(node, expectations):
    """sshd's settings per user: a Match block may hold for one of them only."""
    users = dict.fromkeys(["root", expectations.user, *(u.name for u in expectations.users)])
    client = "host=client.invalid,addr=$(echo ${SSH_CONNECTION:-127.0.0.1} | cut -d' ' -f1)"
    commands = {user: f"sshd -T -C user={user},{client}" for user in users}
    return node.read(**commands)


@pytest.fixture(scope="module")
def answers(target, key_path):
    return knock(target, key_path)


@check("ssh_hardening.effective_config", severity="critical")
def test_effective_config(effective, verdict):
    """sshd's effective settings are the hardened ones, for every user."""
    problems = {}
    for user, reading in effective.items():
        for text in deviations(parse_effective(reading.text)):
            problems.setdefault(text, []).append(user)
    users = ", ".join(effective)
    measured = "; ".join(problems) or f"all hold for {users}"
    verdict.judge(not problems, measured=measured, expected="hardened", evidence=f"users: {users}")


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
