"""What other files say to sshd against what is wanted of it, and what of that is in force. Pure.

Standard library only, Python 3.9 or newer: used on servers and by the checks alike. Follows
sshd_config(5): of a setting the first value counts; a Match block's value counts before any
global one, and among blocks again the first; `Include` is read where it stands, its files by name;
a Match block of an included file ends with that file.
"""

from __future__ import annotations

import fnmatch
import glob
import os

OURS = "/etc/ssh/sshd_config.d/00-gpuferry.conf"
MAIN = "/etc/ssh/sshd_config"
# These have no first value: every line counts, and one that denies wins over all that allow.
WHO = ("allowusers", "allowgroups", "denyusers", "denygroups")
WHERE = ("port", "listenaddress")


def read(path):
    """Text of a file; empty when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""


def lines(path=MAIN, load=read, expand=glob.glob, match="", depth=0):
    """Every setting in the order in which sshd reads it.

    Each is `{"path", "line", "keyword", "value", "match", "before_ours"}`; keywords are in small
    letters, `match` is the condition of the block it stands in. Our own file need not be there yet.
    """
    found = []
    before = depth == 0
    for number, raw in enumerate(load(path).splitlines(), 1):
        words = raw.strip().replace("=", " ", 1).split(None, 1)
        if not words or words[0].startswith("#"):
            continue
        keyword, value = words[0].lower(), (words[1].strip().strip('"') if words[1:] else "")
        if keyword == "match":
            match = value
            continue
        if keyword != "include":
            entry = {"path": path, "line": number, "keyword": keyword, "value": value}
            found.append({**entry, "match": match, "before_ours": before})
            continue
        # sshd stops at 16 levels, too.
        for pattern in value.split() if depth < 16 else []:
            whole = os.path.join("/etc/ssh", pattern)
            for name in sorted(expand(whole)):
                inner = lines(name, load, expand, match, depth + 1)
                first = before and (name < OURS or not fnmatch.fnmatch(OURS, whole))
                found += [{**s, "before_ours": first} for s in inner]
            before = before and not fnmatch.fnmatch(OURS, whole)
    return found


def includes_ours(main):
    """Whether the main file's text reads our file's folder, outside of Match blocks."""
    for raw in main.splitlines():
        words = raw.split()
        if words[:1] and words[0].lower() == "match":
            return False
        patterns = words[1:] if words[:1] and words[0].lower() == "include" else []
        if any(fnmatch.fnmatch(OURS, os.path.join("/etc/ssh", each)) for each in patterns):
            return True
    return False


def contradictions(settings, daemon, login):
    """Settings of others that say something else than what is wanted.

    `daemon` are the wanted settings of the whole daemon, `login` those of our own Match block, both
    by keyword in small letters. `in_force` of each says whether it counts in spite of ours.
    """
    wanted = {**daemon, **login}
    found = []
    for setting in settings:
        keyword = setting["keyword"]
        want = wanted.get(keyword)
        if setting["path"] == OURS or want is None or same(setting["value"], want):
            continue
        first = setting["before_ours"]
        in_block = bool(setting["match"])
        in_force = first and (in_block if keyword in login else not in_block)
        found.append({**setting, "in_force": in_force})
    return found


def same(one, other):
    """Whether two values mean the same."""
    return " ".join(str(one).lower().split()) == " ".join(str(other).lower().split())


def place(setting):
    """Where a setting stands and what it says, for people."""
    return f"{setting['path']}:{setting['line']} {setting['keyword']} {setting['value']}"


def lock_outs(settings, session, user, groups, allowed_users, allowed_groups):
    """Sentences about settings of others that would shut this run's user out at the next login.

    `session` is what :func:`ssh_session` returns. Settings that are not yet in force count: sshd
    is about to be reloaded.
    """
    others = [s for s in settings if s["path"] != OURS]
    said = []
    for setting in others:
        keyword, patterns = setting["keyword"], setting["value"].split()
        names = [user] if keyword.endswith("users") else groups
        declared = allowed_users if keyword == "allowusers" else allowed_groups
        hit = any(matches(name, patterns) for name in names)
        if keyword in ("denyusers", "denygroups") and user and hit:
            said.append(f"{place(setting)} denies {user}, as whom this run logs in")
        elif keyword in ("allowusers", "allowgroups") and not set(patterns) <= set(declared):
            said.append(f"{place(setting)} decides who may log in, and is not declared")
    if session:
        port, address = str(session["server_port"]), session["server_address"]
        said += ports(others, port) + addresses(others, port, address)
    return said


def ports(others, port):
    """A port that sshd would leave at its next start."""
    named = [s for s in others if s["keyword"] == "port" and not s["match"]]
    if not named or port in [s["value"] for s in named]:
        return []
    return [f"{place(named[0])} would move sshd away from port {port}, by which this run came in"]


def addresses(others, port, address):
    """An address that sshd would leave at its next start."""
    named = [s for s in others if s["keyword"] == "listenaddress" and not s["match"]]
    if not named or any(listens(s["value"].split()[0], port, address) for s in named):
        return []
    return [f"{place(named[0])} would leave out {address}, by which this run came in"]


def listens(value, port, address):
    """Whether `ListenAddress value` takes in connections to `address` and `port`."""
    host, own = value, port
    if value.startswith("["):
        host, _, rest = value[1:].partition("]")
        own = rest.lstrip(":") or port
    elif value.count(":") == 1:
        host, own = value.split(":")
    everyone = "::" if ":" in address else "0.0.0.0"  # noqa: S104
    return own == port and host in (address, everyone, "*")


def matches(name, patterns):
    """Whether a name matches one of sshd's patterns; the host part of `user@host` is not judged."""
    return any(fnmatch.fnmatch(name, pattern.split("@")[0]) for pattern in patterns)
