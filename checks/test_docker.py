"""The role docker: the daemon's effective settings, and a container that really runs."""

import json

import pytest

from gpuferry.checking.container import GREETING, is_bounded_log
from gpuferry.checking.mark import check


@pytest.fixture(scope="module")
def readings(node):
    return node.read(
        unit="systemctl show docker.service -p ActiveState -p UnitFileState",
        info="docker info --format '{{json .}}'",
    )


@check("docker.daemon", severity="critical")
def test_daemon(readings, verdict):
    """The daemon runs, answers, and comes back after a restart."""
    properties = readings["unit"].properties
    state = [properties.get(name) or "absent" for name in ("ActiveState", "UnitFileState")]
    info = json.loads(readings["info"].text or "{}")
    version = info.get("ServerVersion")
    verdict.judge(
        state == ["active", "enabled"] and bool(version),
        measured=f"{', '.join(state)}, {f'answers ({version})' if version else 'does not answer'}",
        expected="active, enabled, answers",
        evidence=""
        if version
        else "; ".join(info.get("ServerErrors") or [readings["info"].trouble]),
    )


@check("docker.live_restore")
def test_live_restore(readings, expectations, verdict):
    """Containers outlive an update of the daemon."""
    enabled = json.loads(readings["info"].text or "{}").get("LiveRestoreEnabled")
    verdict.judge(
        enabled == expectations.docker.live_restore,
        measured=f"live restore: {enabled}",
        expected=f"live restore: {expectations.docker.live_restore}",
        evidence="as the running daemon says",
    )


@check("docker.log_rotation", deadline_seconds=60)
def test_log_rotation(container_run, expectations, verdict):
    """The logs of a container cannot fill the disk."""
    driver, options = container_run["log_driver"], container_run["log_options"]
    wanted = expectations.docker
    right_driver = wanted.log_driver in ("", driver)
    as_declared = right_driver and wanted.log_options.items() <= options.items()
    shown = ", ".join(f"{key}={value}" for key, value in options.items()) or "no options"
    verdict.judge(
        bool(driver) and as_declared and is_bounded_log(driver, options),
        measured=f"{driver or 'no container'}, {shown}",
        expected=f"{wanted.log_driver or 'any driver'}, bounded {wanted.log_options or ''}".strip(),
        evidence=container_run["trouble"] or "settings of a new container",
    )


@check("docker.runs_container", severity="critical", deadline_seconds=60)
def test_runs_container(container_run, verdict):
    """A container runs, its published port answers on loopback, and it ends with exit code 0."""
    answers = "answers" if container_run["greeting"].strip() == GREETING else "does not answer"
    verdict.judge(
        not container_run["trouble"] and answers == "answers" and container_run["exit_code"] == 0,
        measured=f"published port {answers}, exit code {container_run['exit_code']}",
        expected="published port answers, exit code 0",
        evidence=container_run["trouble"]
        or f"made, run and removed in {container_run['seconds']:.1f} s",
    )
