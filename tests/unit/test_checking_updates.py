"""What a server says about its updates, judged."""

from __future__ import annotations

from typing import Any

import pytest

from gpuferry.checking import updates

NOW, DAY = 10_000_000.0, 86400
STATE: dict[str, Any] = {
    "measured": True, "at": NOW - 60, "security": {}, "other": {}, "oldest_seconds": 0,
    "reboot_required": False, "reboot_since": None, "reboot_packages": [],
    "decision": {"reboot": False, "why": ["no reboot is needed"]},
}  # fmt: skip
BACKLOGS = {
    "nothing waits": ({}, "pass", "0 security updates wait"),
    "one waits since today": (
        {"security": {"a": "1"}, "oldest_seconds": 3600 * 5}, "pass", "the oldest for 5 h"),
    "one waits for days": (
        {"security": {"a": "1"}, "oldest_seconds": 3 * DAY}, "fail", "the oldest for 3 d"),
    "only others wait": ({"other": {"b": "1"}}, "pass", "0 security updates"),
    "nobody has looked": ({"at": NOW - 5 * 3600}, "fail", "last looked 5 h ago"),
    "apt could not tell": ({"measured": False}, "not_measured", "apt"),
}  # fmt: skip


@pytest.mark.parametrize("case", BACKLOGS)
def test_backlog(case: str) -> None:
    changes, status, words = BACKLOGS[case]
    answer = updates.backlog({**STATE, **changes}, NOW)
    assert answer.status == status
    assert words in answer.measured


@pytest.mark.parametrize(
    ("waited", "status"), [(None, "pass"), (DAY, "pass"), (7 * DAY, "pass"), (9 * DAY, "fail")]
)
def test_reboot(waited: float | None, status: str) -> None:
    state = STATE
    if waited is not None:
        since = {"reboot_required": True, "reboot_since": NOW - waited}
        state = {**STATE, **since, "reboot_packages": ["linux-image-amd64"]}
    answer = updates.reboot(state, NOW, "")
    assert answer.status == status
    assert ("linux-image-amd64" in answer.measured) is (waited is not None)
    assert "never by itself" in answer.evidence


CONFIG = """APT "";
Unattended-Upgrade::Origins-Pattern "";
Unattended-Upgrade::Origins-Pattern:: "origin=Debian,codename=${distro_codename},label=Debian";
Unattended-Upgrade::Origins-Pattern:: "origin=Debian,label=Debian-Security";
Unattended-Upgrade::Allowed-Origins:: "${distro_id}:${distro_codename}-updates";
Unattended-Upgrade::Package-Blacklist:: "^nvidia-";
"""


def test_origins_that_are_not_security_are_named() -> None:
    found = updates.patterns(CONFIG)
    assert len(found) == 3
    assert updates.foreign(found) == [
        "origin=Debian,codename=${distro_codename},label=Debian",
        "${distro_id}:${distro_codename}-updates",
    ]
