"""What is said about a frozen set that moved, or that something could still move."""

from __future__ import annotations

import pytest

from gpuferry.checking import frozen
from gpuferry.shared import shared

FREEZE = shared("freeze")
SET = {"docker.io": "26", "nvidia-smi": "550"}
INSTALLED = {**SET, "python3": "3", "vim": "9"}


def blacklist(*families: str) -> str:
    lines = "".join(f'Unattended-Upgrade::Package-Blacklist:: "{f}";\n' for f in families)
    return f'Unattended-Upgrade::Package-Blacklist "";\n{lines}'


def policy(**candidates: str) -> str:
    whole = {**SET, **{k.replace("_", "."): v for k, v in candidates.items()}}
    return "".join(
        f"{name}:\n  Installed: {SET[name]}\n  Candidate: {candidate}\n  Version table:\n"
        f" *** {SET[name]} 999\n        100 /var/lib/dpkg/status\n"
        for name, candidate in whole.items()
    )


GUARDED = {
    "held": list(SET),
    "blacklist": blacklist(*FREEZE.FAMILIES),
    "preferences": FREEZE.preferences(SET),
    "policy": policy(),
    "needrestart": "docker.service 0\ncontainerd.service 0\n",
}


def test_a_set_that_everything_guards_has_no_problem() -> None:
    assert frozen.unguarded(SET, INSTALLED, **GUARDED) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"held": ["docker.io"]}, "nvidia-smi is not held"),
        (
            {"preferences": FREEZE.preferences({"docker.io": "26"})},
            "no pin keeps nvidia-smi at 550",
        ),
        ({"preferences": ""}, "no pin keeps docker.io at 26"),
        (
            {"preferences": FREEZE.preferences({**SET, "nvidia-smi": "535"})},
            "no pin keeps nvidia-smi at 550",
        ),
        (
            {"preferences": FREEZE.preferences(SET).replace("999", "100")},
            "no pin keeps docker.io at 26",
        ),
        ({"policy": policy(docker_io="27")}, "apt would take docker.io 27, frozen at 26"),
        ({"blacklist": blacklist("^nvidia-")}, "unattended-upgrades may take docker.io"),
        ({"blacklist": blacklist()}, "unattended-upgrades may take nvidia-smi"),
        ({"needrestart": "docker.service restart\n"}, "needrestart may restart docker.service"),
    ],
)
def test_each_guard_that_is_missing_is_named(change: dict[str, object], said: str) -> None:
    assert said in frozen.unguarded(SET, INSTALLED, **{**GUARDED, **change})  # type: ignore[arg-type]


def test_a_pattern_of_somebody_else_that_is_none_breaks_nothing() -> None:
    patterns = {"blacklist": blacklist("*bad", *FREEZE.FAMILIES)}
    assert frozen.unguarded(SET, INSTALLED, **{**GUARDED, **patterns}) == []  # type: ignore[arg-type]


def test_a_server_without_needrestart_has_nothing_to_say_about_it() -> None:
    assert frozen.unguarded(SET, INSTALLED, **{**GUARDED, "needrestart": ""}) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("own", [FREEZE.apt_conf(FREEZE.FAMILIES), ""])
@pytest.mark.parametrize(
    ("installed", "said"),
    [
        (INSTALLED, []),
        ({**INSTALLED, "nvidia-smi": "580"}, ["nvidia-smi is 580, frozen at 550"]),
        ({"docker.io": "26"}, ["nvidia-smi is absent, frozen at 550"]),
        ({**INSTALLED, "libnvidia-ml1": "550"}, ["libnvidia-ml1 550 is outside the set"]),
    ],
)
def test_members_are_those_of_our_own_families(
    own: str, installed: dict[str, str], said: list[str]
) -> None:
    assert frozen.moved(SET, installed, frozen.families(own)) == said


@pytest.mark.parametrize("text", ["", "{broken", "[]", "null"])
def test_a_record_that_cannot_be_read_records_nothing(text: str) -> None:
    assert frozen.record(text) == {}
