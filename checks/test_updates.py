"""The role updates: security updates come by themselves, and what waits is known."""

import json
import time

import pytest

from gpuferry.checking import updates
from gpuferry.checking.mark import check

INSTALL = "see why with ./ferry ssh {server} -- sudo unattended-upgrade --dry-run -v"
REBOOT = "declare updates.reboot_window, or: ./ferry ssh {server} -- sudo reboot, when nothing runs"
TIMERS = ("apt-daily.timer", "apt-daily-upgrade.timer", "gpuferry-updates.timer")


@pytest.fixture(scope="module")
def readings(updates_readings):
    return updates_readings


@pytest.fixture(scope="module")
def state(readings):
    return json.loads(readings["state"].text)


@check("updates.origins", severity="critical")
def test_origins(readings, verdict):
    """Only security updates install themselves."""
    found = updates.patterns(readings["config"].output)
    others = updates.foreign(found)
    verdict.judge(
        bool(found) and not others,
        measured=", ".join(others) or f"{len(found)} patterns, all for security",
        expected="security only",
        evidence="; ".join(found),
    )


@check("updates.enabled", severity="major")
def test_enabled(readings, expectations, verdict):
    """They are fetched and installed daily."""
    config = readings["config"].output
    daily = 'APT::Periodic::Unattended-Upgrade "1"' in config
    words = readings["timers"].output.split()
    timers = words == ["enabled"] * len(TIMERS)
    verdict.judge(
        timers and daily == expectations.updates.automatic,
        measured=f"daily: {'yes' if daily else 'no'}, timers: {', '.join(words) or 'none'}",
        expected=f"daily: {'yes' if expectations.updates.automatic else 'no'}, timers enabled",
    )


@check("updates.backlog", severity="major", next_step=INSTALL, deadline_seconds=60)
def test_backlog(state, verdict):
    """No security update waits for long."""
    verdict.answers.append(updates.backlog(state, time.time()))


@check("updates.reboot", severity="minor", next_step=REBOOT)
def test_reboot(state, expectations, verdict):
    """No update waits for a reboot for long."""
    window = expectations.updates.reboot_window
    verdict.answers.append(updates.reboot(state, time.time(), window))
