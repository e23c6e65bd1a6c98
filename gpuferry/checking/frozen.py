"""Whether the frozen set is what it was frozen as, and whether all that guards it agrees. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from gpuferry.shared import shared

# Asks needrestart's own configuration, as needrestart reads it: 0 is "leave it alone".
NEEDRESTART = r"""
command -v needrestart >/dev/null || exit 0
perl -e 'our %nrconf;
do "/etc/needrestart/needrestart.conf"; die $@ if $@;
for my $unit (@ARGV) { my ($hit) = grep { $unit =~ /$_/ } keys %{$nrconf{override_rc}};
  print "$unit ", (defined $hit ? $nrconf{override_rc}{$hit} : "restart"), "\n"; }' \
  docker.service containerd.service nvidia-persistenced.service nvidia-fabricmanager.service
"""
_RECORDED = r"""sed -n 's/^ *"\([^"]*\)": .*/\1/p' /var/lib/gpuferry/frozen.json"""
POLICY = f"{_RECORDED} | xargs -r apt-cache policy"


def record(text: str) -> dict[str, str]:
    """The recorded versions by package; empty where there is no record that can be read."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def families(apt_conf: str) -> list[str]:
    """The families in our own file of apt's configuration, else those of the role's defaults.

    Not those that apt knows altogether: what somebody else keeps out of unattended upgrades is no
    member of the set.
    """
    return re.findall(r'^ *"(.*)";$', apt_conf, re.M) or list(shared("freeze").FAMILIES)


def moved(frozen: Mapping[str, str], installed: Mapping[str, str], own: Iterable[str]) -> list[str]:
    """Sentences about members that are not what was frozen, or that are outside the set."""
    problems = [
        f"{name} is {installed.get(name, 'absent')}, frozen at {version}"
        for name, version in frozen.items()
        if installed.get(name) != version
    ]
    present = shared("freeze").members(own, installed)
    outside = sorted(present.keys() - frozen.keys())
    return problems + [f"{name} {present[name]} is outside the set" for name in outside]


def unguarded(
    frozen: Mapping[str, str],
    installed: Mapping[str, str],
    *,
    held: Iterable[str],
    blacklist: str,
    preferences: str,
    policy: str,
    needrestart: str,
) -> list[str]:
    """Sentences about members that something could still move, or restart.

    `blacklist`: `apt-config dump`; `policy`: `apt-cache policy` of the members; `needrestart`:
    lines of unit and answer, empty where it is not installed.
    """
    holds, pins = set(held), _pins(preferences)
    patterns = [p for p in map(_pattern, re.findall(r'Blacklist:: "(.*)";', blacklist)) if p]
    candidates = _candidates(policy)
    problems = [f"{name} is not held" for name in frozen if name not in holds]
    problems += [f"no pin keeps {n} at {v}" for n, v in frozen.items() if pins.get(n) != v]
    problems += [
        f"apt would take {name} {candidates[name]}, frozen at {version}"
        for name, version in frozen.items()
        # One that moved already is told by `moved`.
        if installed.get(name) == version and candidates.get(name, version) != version
    ]
    problems += [
        f"unattended-upgrades may take {name}"
        for name in frozen
        if not any(pattern.match(name) for pattern in patterns)
    ]
    rows = (line.split() for line in needrestart.splitlines())
    return problems + [f"needrestart may restart {r[0]}" for r in rows if r[1:] != ["0"]]


def _pattern(text: str) -> re.Pattern[str] | None:
    """A pattern of somebody else's may be none; it keeps nothing out."""
    try:
        return re.compile(text)
    except re.error:
        return None


def _pins(preferences: str) -> dict[str, str]:
    pin = r"^Package: (\S+)\nPin: version (\S+)\nPin-Priority: (\d+)$"
    return {
        name: version
        for name, version, priority in re.findall(pin, preferences, re.M)
        if int(priority) >= shared("freeze").PRIORITY
    }


def _candidates(policy: str) -> dict[str, str]:
    return dict(re.findall(r"^(\S+):\n  Installed: .*\n  Candidate: (\S+)$", policy, re.M))
