"""People's accounts: read them from the server and compare them with what was declared."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import TypedDict

from gpuferry.checking.expectations import ExpectedUser
from gpuferry.checking.node import Node
from gpuferry.checking.recorder import Answer

# The role base marks the accounts that it made; only of those it owns the whole list of keys.
_OWN_ACCOUNT = "gpuferry user"

_PROGRAM = """
import os, pwd, subprocess
answer = {}
for name in payload:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        continue
    path = os.path.join(entry.pw_dir, ".ssh/authorized_keys")
    keys = open(path).read().splitlines() if os.path.exists(path) else []
    rights = subprocess.run(["sudo", "-n", "-l", "-U", name], capture_output=True, text=True).stdout
    answer[name] = {"full_name": entry.pw_gecos.split(",")[0], "keys": keys, "rights": rights}
"""


# Root is left out: that it cannot log in is a check of its own. So is that sshd reads no other file
# of keys; and who has no shell can neither run a command nor forward a port.
_LOGINS = """
import grp, os, pwd, subprocess
docker = [g.gr_mem for g in grp.getgrall() if g.gr_name == "docker"]
answer = []
for entry in pwd.getpwall():
    path = os.path.join(entry.pw_dir, ".ssh/authorized_keys")
    if not entry.pw_uid or entry.pw_shell.endswith(("/nologin", "/false")):
        continue
    if not os.path.isfile(path):
        continue
    ask = ["sudo", "-n", "-l", "-U", entry.pw_name]
    rights = subprocess.run(ask, capture_output=True, text=True).stdout
    answer.append({
        "name": entry.pw_name,
        "keys": open(path, errors="replace").read().splitlines(),
        "sudo": "may run the following" in rights,
        "docker": any(entry.pw_name in members for members in docker),
    })
"""


class Login(TypedDict):
    """An account that keys open over SSH; `keys` are the lines of its file."""

    name: str
    keys: list[str]
    sudo: bool
    docker: bool


class Account(TypedDict):
    """What the server says about one account; `rights` is the output of `sudo -l -U`."""

    full_name: str
    keys: list[str]
    rights: str


def read_accounts(node: Node, users: Iterable[ExpectedUser]) -> dict[str, Account]:
    """Return the accounts that exist, by name."""
    accounts: dict[str, Account] = node.python(_PROGRAM, [user.name for user in users])
    return accounts


def account_problems(users: Iterable[ExpectedUser], accounts: Mapping[str, Account]) -> list[str]:
    """Return what is wrong, one short text per problem."""
    problems: list[str] = []
    for user in users:
        account = accounts.get(user.name)
        if account is None:
            problems.append(f"{user.name}: no account")
            continue
        declared, present = _bodies(user.public_keys), _bodies(account["keys"])
        if missing := declared - present:
            problems.append(f"{user.name}: {len(missing)} declared key(s) missing")
        surplus = present - declared
        if surplus and account["full_name"] == _OWN_ACCOUNT:
            problems.append(f"{user.name}: {len(surplus)} key(s) that are not declared")
        may_sudo = "NOPASSWD: ALL" in account["rights"]
        if may_sudo != user.sudo:
            problems.append(f"{user.name}: sudo is {_word(may_sudo)}, declared {_word(user.sudo)}")
    return problems


def read_logins(node: Node) -> list[Login]:
    """Return every account but root's that has a shell and a file of keys."""
    logins: list[Login] = node.python(_LOGINS, None)
    return logins


def judge_logins(user: str, declared: Iterable[str], logins: Iterable[Login]) -> Answer:
    """Keys open only the account that gpuferry uses, `user`, and those that were declared; pure.

    Whose keys `user` has nobody declared, so they are named and not judged.
    """
    known = {user, *declared}
    able = [login for login in logins if _bodies(login["keys"])]
    others = [_described(login) for login in able if login["name"] not in known]
    own = [
        body for login in able if login["name"] == user for body in sorted(_bodies(login["keys"]))
    ]
    return Answer(
        "fail" if others else "pass",
        f"not declared: {'; '.join(others)}" if others else "none but these",
        f"only {', '.join(sorted(known))}",
        f"keys of {user}: {', '.join(map(_fingerprint, own)) or 'none in its file'}",
    )


def _described(login: Login) -> str:
    count = len(_bodies(login["keys"]))
    rights = [right for right in ("sudo", "docker") if login[right]]
    with_rights = f", with {' and '.join(rights)}" if rights else ""
    return f"{login['name']} ({count} {'key' if count == 1 else 'keys'}{with_rights})"


def _fingerprint(body: str) -> str:
    """As `ssh-keygen -l` prints it."""
    try:
        digest = hashlib.sha256(base64.b64decode(body)).digest()
    except ValueError:
        return "a damaged key"
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _bodies(lines: Iterable[str]) -> set[str]:
    """Keep the key material: comments differ, and options may precede the key type."""
    words = (line.split() for line in lines if line.strip() and not line.startswith("#"))
    return {word for line in words for word in line if word.startswith("AAAA")}


def _word(allowed: bool) -> str:
    return "allowed" if allowed else "not allowed"
