"""People's accounts: read them from the server and compare them with what was declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

from gpuferry.checking.expectations import ExpectedUser
from gpuferry.checking.node import Node

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


def _bodies(lines: Iterable[str]) -> set[str]:
    """Keep the key material: comments differ, and options may precede the key type."""
    words = (line.split() for line in lines if line.strip() and not line.startswith("#"))
    return {word for line in words for word in line if word.startswith("AAAA")}


def _word(allowed: bool) -> str:
    return "allowed" if allowed else "not allowed"
