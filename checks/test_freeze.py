"""The role freeze: the GPU stack moves only together and on purpose."""

import json
import re

import pytest

from gpuferry.checking.mark import check

UPGRADE = "see what moved it, then run: ./ferry driver upgrade {server} --accept"


FINISH = (
    "run: ./ferry driver upgrade {server}, or undo it: ./ferry driver upgrade {server} --rollback"
)


@pytest.fixture(scope="module")
def readings(freeze_readings):
    return freeze_readings


@pytest.fixture(scope="module")
def frozen(readings):
    return json.loads(readings["record"].text or "{}")


@pytest.fixture(scope="module")
def installed(readings):
    rows = (line.split() for line in readings["installed"].output.splitlines())
    return {row[0]: row[1] for row in rows if row[-1:] == ["installed"]}


@pytest.fixture(scope="module")
def families(readings):
    return re.findall(r'Package-Blacklist:: "(.*)";', readings["config"].output)


@check("freeze.members", severity="critical", next_step=UPGRADE)
def test_members(frozen, installed, families, verdict):
    """Every member has the version it was frozen at, and no member is outside the set."""
    ours = {n: v for n, v in installed.items() if any(re.match(f, n) for f in families)}
    problems = [f"{n} is {ours.get(n, 'absent')}, frozen at {v}" for n, v in frozen.items()
                if ours.get(n) != v]  # fmt: skip
    problems += [f"{n} {ours[n]} is outside the set" for n in sorted(ours.keys() - frozen.keys())]
    verdict.judge(
        bool(frozen) and not problems,
        measured="; ".join(problems[:5]) or f"{len(frozen)} packages as frozen",
        expected="all members as frozen, none outside",
        evidence=", ".join(f"{n} {v}" for n, v in list(frozen.items())[:6]),
    )


@check("freeze.agrees", severity="major")
def test_agrees(readings, frozen, families, verdict):
    """Holds, unattended-upgrades and needrestart know every member."""
    held = set(readings["holds"].output.split())
    problems = [f"{name} is not held" for name in frozen if name not in held]
    problems += [f"unattended-upgrades may take {name}" for name in frozen
                 if not any(re.match(family, name) for family in families)]  # fmt: skip
    text = readings["needrestart"].output
    if readings["needrestart"].exit_code == 0 and "docker" not in text:
        problems.append("needrestart may restart Docker")
    verdict.judge(
        bool(frozen) and not problems,
        measured="; ".join(problems[:5]) or f"{len(frozen)} held and kept out of upgrades",
        expected="hold, blacklist and needrestart agree",
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
def test_upgrade_moves_none(readings, frozen, verdict):
    """A full upgrade, simulated by apt itself, would move no member."""
    if readings["upgrade"].exit_code != 0:
        verdict.not_measured(f"apt-get -s dist-upgrade: {readings['upgrade'].trouble}")
        return
    moving = re.findall(r"(?m)^(?:Inst|Remv|Conf) (\S+)", readings["upgrade"].output)
    hit = sorted(set(moving) & set(frozen))
    would = f"{', '.join(hit)} would move" if hit else "no member would move"
    verdict.judge(
        bool(frozen) and not hit,
        measured=would if frozen else "nothing is frozen",
        expected="no member would move",
        evidence=f"{len(set(moving))} other packages would",
    )
