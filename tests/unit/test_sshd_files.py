"""Which lines of other files count for sshd, which are neutralised, which would lock out."""

from __future__ import annotations

import fnmatch
from typing import Any

import pytest

from gpuferry.shared import shared

FILES = shared("sshd_files")
MAIN = "Include /etc/ssh/sshd_config.d/*.conf\n"
DAEMON = {"ciphers": "aes256-ctr", "maxstartups": "30:50:100"}
LOGIN = {"passwordauthentication": "no", "permitrootlogin": "no"}
SESSION = {"server_port": 22, "server_address": "192.0.2.5"}


def lines(files: dict[str, str], main: str = MAIN) -> list[dict[str, Any]]:
    everything = {FILES.MAIN: main, **{f"/etc/ssh/{name}": text for name, text in files.items()}}
    return list(
        FILES.lines(
            load=lambda path: everything.get(path, ""),
            expand=lambda pattern: [p for p in everything if fnmatch.fnmatch(p, pattern)],
        )
    )


CASES = {
    "a vendor's drop-in after ours": (
        MAIN, {"sshd_config.d/50-cloud-init.conf": "PasswordAuthentication yes"}, 1, []),
    "the same in small letters and with an equals sign": (
        MAIN, {"sshd_config.d/50-x.conf": "passwordauthentication=yes"}, 1, []),
    "one that says what is wanted": (
        MAIN, {"sshd_config.d/50-x.conf": "PasswordAuthentication no"}, 0, []),
    "a comment": (MAIN, {"sshd_config.d/50-x.conf": "# PasswordAuthentication yes"}, 0, []),
    "a global login setting before ours: our Match block wins": (
        MAIN, {"sshd_config.d/00-a.conf": "PasswordAuthentication yes"}, 1, []),
    "a setting of the daemon before ours": (
        MAIN, {"sshd_config.d/00-a.conf": "Ciphers aes128-cbc"}, 1, ["00-a.conf:1 ciphers"]),
    "a Match block before ours": (
        MAIN, {"sshd_config.d/00-a.conf": "Match User root\n PermitRootLogin yes"}, 1,
        ["00-a.conf:2 permitrootlogin yes"]),
    "a Match block for everybody before ours": (
        MAIN, {"sshd_config.d/00-a.conf": "Match all\n PermitRootLogin yes"}, 1,
        ["00-a.conf:2 permitrootlogin yes"]),
    "a Match block after ours": (
        MAIN + "Match User root\n PermitRootLogin yes\n", {}, 1, []),
    "a block ends with its file": (
        MAIN, {"sshd_config.d/00-a.conf": "Match User x", "sshd_config.d/00-b.conf": "Ciphers 3d"},
        1, ["00-b.conf:1 ciphers"]),
    "the main file before its Include": (
        f"MaxStartups 1:1:1\n{MAIN}", {}, 1, ["sshd_config:1 maxstartups"]),
    "a file included by a drop-in": (
        MAIN, {"sshd_config.d/00-a.conf": "Include /etc/ssh/more.conf", "more.conf": "Ciphers 3d"},
        1, ["more.conf:1 ciphers"]),
    "our own file": (MAIN, {"sshd_config.d/00-gpuferry.conf": "PermitRootLogin yes"}, 0, []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_contradictions(case: str) -> None:
    main, files, count, in_force = CASES[case]
    found = FILES.contradictions(lines(files, main), DAEMON, LOGIN)
    assert len(found) == count
    named = [FILES.place(s) for s in found if s["in_force"]]
    assert len(named) == len(in_force)
    assert all(part in name for part, name in zip(in_force, named, strict=True))


LOCK_OUTS = {
    "nothing about logins": ("PasswordAuthentication yes", ""),
    "groups that are not declared": ("AllowGroups admin", "allowgroups admin decides"),
    "groups that are declared": ("AllowGroups team", ""),
    "users that are declared": ("AllowUsers ferry", ""),
    "a denied user": ("DenyUsers ferry", "denies ferry"),
    "a denied pattern": ("DenyUsers f*@10.0.0.1", "denies ferry"),
    "a denied group": ("DenyGroups team", "denies ferry"),
    "somebody else denied": ("DenyUsers mallory", ""),
    "another port": ("Port 2222", "away from port 22"),
    "another port beside": ("Port 2222\nPort 22", ""),
    "one other address": ("ListenAddress 10.0.0.1", "leave out 192.0.2.5"),
    "our address": ("ListenAddress 192.0.2.5", ""),
    "our address at another port": ("ListenAddress 192.0.2.5:2222", "leave out"),
    "every address": ("ListenAddress 0.0.0.0\nListenAddress ::", ""),
    "every address of the other family": ("ListenAddress ::", "leave out"),
    "one in brackets": ("ListenAddress [::1]:22\nListenAddress 192.0.2.5", ""),
}


@pytest.mark.parametrize("case", LOCK_OUTS)
def test_lock_outs(case: str) -> None:
    text, sentence = LOCK_OUTS[case]
    settings = lines({"sshd_config.d/60-port.conf": text})
    said = FILES.lock_outs(settings, SESSION, "ferry", ["team"], ["ferry"], ["team"])
    assert bool(said) == bool(sentence), said
    assert sentence in " ".join(said)


def test_where_systemd_listens_ports_are_not_sshds() -> None:
    settings = lines({"sshd_config.d/60-port.conf": "Port 2222"})
    assert FILES.lock_outs(settings, {}, "ferry", [], [], []) == []


@pytest.mark.parametrize(
    ("main", "reads"),
    [
        (MAIN, True),
        ("Port 22\nInclude sshd_config.d/*.conf\n", True),
        ("Include /etc/ssh/other/*.conf\n", False),
        ("Match User x\nInclude /etc/ssh/sshd_config.d/*.conf\n", False),
        ("Port 22\n", False),
    ],
)
def test_whether_our_file_is_read_at_all(main: str, reads: bool) -> None:
    assert FILES.includes_ours(main) is reads
