"""The role freeze: the GPU stack moves only together and on purpose."""

import json
import re

import pytest

from gpuferry.checking import frozen
from gpuferry.checking.mark import check

UPGRADE = "see what moved it, then run: ./ferry driver upgrade {server} --accept"


FINISH = (
    "run: ./ferry driver upgrade {server}, or undo it: ./ferry driver upgrade {server} --rollback"
)


@pytest.fixture(scope="module")
def readings(freeze_readings):
    return freeze_readings


@pytest.fixture(scope="module")
def frozen_set(readings):
    return frozen.record(readings["record"].text)


@pytest.fixture(scope="module")
def installed(readings):
    rows = (line.split() for line in readings["installed"].output.splitlines())
    return {row[0]: row[1] for row in rows if row[-1:] == ["installed"]}


@check("freeze.members", severity="critical", next_step=UPGRADE)
def test_members(readings, frozen_set, installed, verdict):
    """Every member has the version it was frozen at, and no member is outside the set."""
    own = frozen.families(readings["own_config"].text)
    problems = frozen.moved(frozen_set, installed, own)
    if not frozen_set:
        problems.insert(0, "/var/lib/gpuferry/frozen.json records nothing")
    verdict.judge(
        not problems,
        measured="; ".join(problems[:5]) or f"{len(frozen_set)} packages as frozen",
        expected="all members as frozen, none outside",
        evidence=", ".join(f"{n} {v}" for n, v in list(frozen_set.items())[:6]),
    )


@check("freeze.agrees", severity="major")
def test_agrees(readings, frozen_set, installed, verdict):
    """Holds, pins, unattended-upgrades and needrestart know every member."""
    problems = frozen.unguarded(
        frozen_set,
        installed,
        held=readings["holds"].output.split(),
        blacklist=readings["config"].output,
        preferences=readings["preferences"].text,
        policy=readings["policy"].output,
        needrestart=readings["needrestart"].output,
    )
    if readings["needrestart"].exit_code != 0:
        problems.append(f"needrestart's settings cannot be read: {readings['needrestart'].trouble}")
    verdict.judge(
        bool(frozen_set) and not problems,
        measured="; ".join(problems[:5])
        or (
            f"{len(frozen_set)} held and kept out of upgrades"
            if frozen_set
            else "nothing is frozen"
        ),
        expected="hold, pin, blacklist and needrestart agree",
    )


@check("freeze.upgrade_finished", severity="critical", next_step=FINISH)
def test_upgrade_finished(readings, verdict):
    """No upgrade of the set was left in the middle."""
    try:
        marker = json.loads(readings["marker"].output.strip() or "{}")
        left = "since {since}, while {phase}".format(**marker) if marker else ""
    except (ValueError, KeyError):
        left = "in an unknown phase: /var/lib/gpuferry/upgrade.json cannot be read"
    verdict.judge(
        readings["marker"].exit_code == 0 and not left,
        measured=f"an upgrade was left unfinished {left}" if left else "none is unfinished",
        expected="no upgrade is unfinished",
    )


@check("freeze.upgrade_moves_none", severity="critical", deadline_seconds=60)
def test_upgrade_moves_none(readings, frozen_set, verdict):
    """A full upgrade, simulated by apt itself, would move no member."""
    if readings["upgrade"].exit_code != 0:
        verdict.not_measured(f"apt-get -s dist-upgrade: {readings['upgrade'].trouble}")
        return
    moving = re.findall(r"(?m)^(?:Inst|Remv|Conf) (\S+)", readings["upgrade"].output)
    hit = sorted(set(moving) & set(frozen_set))
    would = f"{', '.join(hit)} would move" if hit else "no member would move"
    verdict.judge(
        bool(frozen_set) and not hit,
        measured=would if frozen_set else "nothing is frozen",
        expected="no member would move",
        evidence=f"{len(set(moving))} other packages would",
    )
