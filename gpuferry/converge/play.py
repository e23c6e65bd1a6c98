"""Run one playbook with ansible-runner, in a private directory, with pinned host keys."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuferry.converge.progress import Progress
from gpuferry.errors import StepFailed
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession
from gpuferry.paths import REPOSITORY

_FORKS = 16
_BIN = Path(__file__).with_name("bin")


class PlayResult:
    """What a play did on each server."""

    def __init__(self) -> None:
        self.stats: dict[str, dict[str, int]] = {}
        self.changed_tasks: dict[str, list[str]] = {}
        self.failures: dict[str, str] = {}
        self.disturbs: dict[str, list[str]] = {}

    def changed(self, server: str) -> int:
        """Number of tasks that changed something on a server."""
        return self.stats.get("changed", {}).get(server, 0)


def run_playbook(
    playbook: str,
    servers: Sequence[Server],
    variables: Mapping[str, Mapping[str, Any]],
    session: SshSession,
    *,
    check_only: bool = False,
    accelerated: bool = True,
    say: Callable[[str], None],
) -> PlayResult:
    """Play `playbooks/PLAYBOOK` on the servers; `variables` are by server name.

    `accelerated` uses Mitogen, which needs half the time; without it the play is plain Ansible's.

    Raises:
        StepFailed: any server failed or was not reached, or none was played at all.
    """
    import ansible_runner

    folder = Path(tempfile.mkdtemp(prefix="run-", dir=session.directory))
    result, progress = PlayResult(), Progress(say)
    with _cancellable() as cancelled:
        runner = ansible_runner.run(
            private_data_dir=str(folder),
            project_dir=str(REPOSITORY / "playbooks"),
            playbook=str(REPOSITORY / "playbooks" / playbook),
            inventory=_inventory(servers, variables),
            envvars={**_environment(session), **(_mitogen() if accelerated else {})},
            cmdline="--check --diff" if check_only else None,
            # How often it looks whether it was cancelled; Pulumi kills a step after 5 s.
            settings={"pexpect_timeout": 0.5},
            suppress_env_files=True,
            quiet=True,
            event_handler=lambda event: _on_event(event, result, progress),
            cancel_callback=cancelled.is_set,
        )
    progress.over()
    _judge(runner, servers, result)
    return result


@contextlib.contextmanager
def _cancellable() -> Iterator[threading.Event]:
    """Turn signals into an event that ansible-runner polls, so that it ends Ansible first.

    Afterwards the signal takes its ordinary course. Only the main thread can do this; elsewhere
    the caller ends the process.
    """
    cancelled = threading.Event()
    caught: list[int] = []

    def note(number: int, _: object) -> None:
        caught.append(number)
        cancelled.set()

    if threading.current_thread() is not threading.main_thread():
        yield cancelled
        return
    before = {n: signal.signal(n, note) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield cancelled
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if caught:
            os.kill(os.getpid(), caught[0])


def _inventory(
    servers: Sequence[Server], variables: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    # The names resolve in the session's ssh configuration: address, user, key and host key.
    hosts = {s.name: {"ansible_host": s.name, **literal(dict(variables[s.name]))} for s in servers}
    return {"servers": {"hosts": hosts}}


def literal(value: Any) -> Any:
    """The same data, with every text that Ansible would take for a template marked as none.

    Values come from people and from servers: a secret, a label, a daemon option. Taken for a
    template, `{{ lookup('pipe', …) }}` in one of them runs a program on this machine.
    """
    if isinstance(value, Mapping):
        return {key: literal(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [literal(item) for item in value]
    if isinstance(value, str) and any(mark in value for mark in ("{{", "{%", "{#")):
        return {"__ansible_unsafe": value}
    return value


def _environment(session: SshSession) -> dict[str, str]:
    return {
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        # ansible-runner switches this off unless it is set.
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_ROLES_PATH": str(REPOSITORY / "roles"),
        # Not the session's shared connection: a role that changes sshd proves a new login, and
        # Mitogen keeps one connection of its own anyway.
        "ANSIBLE_SSH_ARGS": f"-F {session.config_path} -o ControlMaster=no -o ControlPath=none",
        "ANSIBLE_FORKS": str(_FORKS),
        "ANSIBLE_LOCAL_TEMP": str(session.directory / "ansible-tmp"),
        "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
        "ANSIBLE_RETRY_FILES_ENABLED": "False",
        "ANSIBLE_NOCOWS": "1",
        "PATH": os.pathsep.join(
            (str(_BIN), str(Path(sys.executable).parent), os.environ.get("PATH", ""))
        ),
    }


def _mitogen() -> dict[str, str]:
    found = importlib.util.find_spec("ansible_mitogen")
    if found is None or not found.submodule_search_locations:
        return {}
    plugins = Path(found.submodule_search_locations[0]) / "plugins" / "strategy"
    return {"ANSIBLE_STRATEGY_PLUGINS": str(plugins), "ANSIBLE_STRATEGY": "mitogen_linear"}


def _on_event(event: dict[str, Any], result: PlayResult, progress: Progress) -> bool:
    data = event.get("event_data", {})
    kind, host = event.get("event"), data.get("host", "")
    label = ": ".join(part for part in (data.get("role"), data.get("task")) if part)
    if kind == "playbook_on_task_start":
        # Ansible's own first task of every role says nothing to a person.
        if "Validating arguments" not in label:
            progress.started(label or "starting")
    elif kind == "runner_on_ok":
        progress.does_something()
        if data.get("res", {}).get("changed"):
            result.changed_tasks.setdefault(host, []).append(label)
        for said in data.get("res", {}).get("disturbs") or []:
            result.disturbs.setdefault(host, []).append(f"{label}: {said}")
    elif kind in ("runner_on_failed", "runner_on_unreachable") and not data.get("ignore_errors"):
        progress.does_something()
        result.failures[host] = f"{label}: {_message(data.get('res', {}))}"
    elif kind == "playbook_on_stats":
        result.stats = {key: value for key, value in data.items() if isinstance(value, dict)}
    return False  # keep no event file: events may hold secrets


def _message(res: dict[str, Any]) -> str:
    if res.get("censored"):
        return "failed; the details are hidden because they hold secrets"
    texts = [str(res.get(key, "")).strip() for key in ("msg", "stderr", "module_stderr")]
    texts += [str(item.get("msg", "")) for item in res.get("results", []) if item.get("failed")]
    text = next((t for t in texts if t and t != "MODULE FAILURE"), "no reason given")
    return text if len(text) <= 600 else f"{text[:600]}…"


def _judge(runner: Any, servers: Sequence[Server], result: PlayResult) -> None:
    stats = result.stats
    bad = {*stats.get("failures", {}), *stats.get("dark", {})}
    missing = [s.name for s in servers if s.name not in stats.get("processed", {})]
    if runner.status == "successful" and not bad and not missing:
        return
    reasons = [f"{host}: {result.failures.get(host, 'failed')}" for host in sorted(bad)]
    if not reasons:
        # Nothing was played: a syntax error, or a name that matches no host (exit code 0!).
        said = runner.stdout.read().strip().splitlines()
        errors = [line for line in said if "ERROR" in line or "error" in line.lower()]
        reasons = [(errors or said or [f"ansible ended with {runner.status}"])[-1]]
        if missing and runner.status == "successful":
            reasons = [f"{', '.join(missing)}: nothing was played; is the group 'servers' right?"]
    raise StepFailed("; ".join(reasons))
