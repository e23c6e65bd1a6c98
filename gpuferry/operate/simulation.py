"""sim: look at and change the simulated GPUs of a running server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpuferry import simulation
from gpuferry.engine.project import Project
from gpuferry.errors import SpecError, StepFailed
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession
from gpuferry.operate.console import print_json, print_table, say_on_stderr
from gpuferry.simulation import assign, faults, files, kernel_log
from gpuferry.simulation.compiled import gpu_uuid
from gpuferry.simulation.faults import Change, Request
from gpuferry.simulation.moment import Moment
from gpuferry.simulation.scenario import Scenario, Series, Value

_ON_NODE = Path(simulation.__file__).with_name("on_node.py")
_SECONDS = 60
_ATTEMPTS = 3


def show(project: Project, name: str, *, as_json: bool) -> None:
    """Show what is set and which faults are in force."""
    server = _server(project, name)
    with SshSession([server]) as session:
        scenario, _, _ = read(session, server)
    _print(name, scenario, as_json=as_json)


def set_readings(
    project: Project, name: str, gpu: int | None, assignments: list[str], *, as_json: bool
) -> None:
    """Set readings of one GPU, or of all."""

    def decide(scenario: Scenario, moment: Moment) -> Change:
        gpus = _chosen(scenario, gpu)
        return Change(
            assign.assign(scenario, gpus, assignments, moment),
            forget=assign.forgotten(gpus, assignments),
        )

    _change(project, name, decide, as_json=as_json)


def inject(project: Project, name: str, request: Request, *, as_json: bool) -> None:
    """Inject a fault."""
    _change(project, name, lambda s, moment: faults.inject(s, request, moment), as_json=as_json)


def clear(project: Project, name: str, *, as_json: bool) -> None:
    """Take away all faults and set readings."""
    kept = 0

    def decide(scenario: Scenario, moment: Moment) -> Change:
        nonlocal kept
        kept = moment.log_records
        return Change(faults.clear(scenario, moment))

    _change(project, name, decide, as_json=as_json)
    if kept:
        said = (
            "the kernel's log keeps what was said of them until the next boot, and so does the "
            f"check gpu.xid: ./ferry ssh {name} -- sudo reboot, then ./ferry up"
        )
        say_on_stderr(project.on_stack(said))


def read(session: SshSession, server: Server) -> tuple[Scenario, Moment, str]:
    """The scenario in force, the server's clocks, and the digest of what was read.

    Raises:
        SpecError: the server has no simulated GPUs.
    """
    found = _ask(session, server, None)
    if found["source"] is None:
        raise SpecError(
            f"{server.name} has no simulated GPUs; servers of the local provider that declare "
            "`gpu:` have them. See: ./ferry nodes"
        )
    text = found.pop("source")
    moment = Moment(**{**found, "energy": [tuple(pair) for pair in found["energy"]]})
    digest = hashlib.sha256(text.encode()).hexdigest()
    try:
        return Scenario.model_validate_json(text), moment, digest
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SpecError(
            f"{server.name}: {files.SOURCE} is damaged at {where or 'its start'} ({first['msg']}). "
            f"Make the server anew: ./ferry rebuild {server.name}"
        ) from None


def change(
    session: SshSession, server: Server, decide: Callable[[Scenario, Moment], Change]
) -> Scenario:
    """Read, decide, write; again when somebody else was quicker."""
    for _ in range(_ATTEMPTS):
        scenario, moment, digest = read(session, server)
        decided = decide(scenario, moment)
        contents = files.scenario_files(decided.scenario)
        log = [
            kernel_log.record(message, moment.log_records + number, moment.uptime_seconds)
            for number, message in enumerate(decided.messages)
        ]
        request = {
            "read": digest,
            "source": contents[files.SOURCE].decode(),
            "compiled": contents[files.COMPILED].decode(),
            "log": "".join(log),
            "forget": decided.forget,
        }
        if _ask(session, server, request)["written"]:
            return decided.scenario
    raise StepFailed(f"{server.name}: somebody else keeps changing the simulated GPUs; try again.")


def _change(
    project: Project,
    name: str,
    decide: Callable[[Scenario, Moment], Change],
    *,
    as_json: bool,
) -> None:
    server = _server(project, name)
    with SshSession([server]) as session:
        scenario = change(session, server, decide)
    _print(name, scenario, as_json=as_json)


def _server(project: Project, name: str) -> Server:
    from gpuferry.operate.servers import deployed

    (entry,) = deployed(project, [name])
    return entry.server


def _chosen(scenario: Scenario, gpu: int | None) -> list[int]:
    if gpu is None:
        return list(range(scenario.count))
    if gpu >= scenario.count:
        raise SpecError(f"--gpu {gpu}: accepted: 0 to {scenario.count - 1}.")
    return [gpu]


def _ask(session: SshSession, server: Server, request: dict[str, Any] | None) -> dict[str, Any]:
    script = f"{_ON_NODE.read_text(encoding='utf-8')}\n\nmain({request!r})\n"
    done = session.run(
        server, ["sudo", "-n", "python3", "-"], stdin=script.encode(), timeout_seconds=_SECONDS
    )
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"exit {done.returncode}"
        if reason.startswith("sudo:"):
            reason = server.sudo_advice
        raise StepFailed(f"{server.name}: the simulated GPUs cannot be reached: {reason}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _print(name: str, scenario: Scenario, *, as_json: bool) -> None:
    uuids = [gpu_uuid(scenario.seed, index) for index in range(scenario.count)]
    if as_json:
        print_json({"ok": True, "server": name, "uuids": uuids, "scenario": scenario.model_dump()})
        return
    rows = [
        [str(index), uuid, _settings(scenario, index), _faults(scenario, index)]
        for index, uuid in enumerate(uuids)
    ]
    title = f"{name}: {scenario.count} x {scenario.profile} (simulated)"
    print_table(title, ["gpu", "uuid", "set", "faults"], rows)
    whole = []
    if scenario.init_error:
        whole.append(f"NVML does not start (error {scenario.init_error})")
    if scenario.no_devices:
        whole.append("NVML sees no GPU")
    if scenario.process_stride != 24:
        whole.append("process entries of 32 bytes")
    whole += [_fault(f.function, f.action, f.value) for f in scenario.functions if f.gpu is None]
    for text in whole:
        print(f"all: {text}")


def _settings(scenario: Scenario, index: int) -> str:
    gpu = scenario.gpu(index)
    values = {k: v for k, v in gpu.readings.items() if not k.startswith("energy_")}
    parts = [f"{name}={_value(value)}" for name, value in sorted(values.items())]
    return ", ".join([*parts, *(f"{name}=absent" for name in gpu.absent)]) or "none"


def _value(value: Value) -> str:
    if not isinstance(value, Series):
        return f"{value:g}"
    points = ",".join(f"{time:g}:{number:g}" for time, number in value.points)
    return f"{points},{value.end},{value.shape}"


def _faults(scenario: Scenario, index: int) -> str:
    gpu = scenario.gpu(index)
    parts = [f"error {gpu.error}"] if gpu.error else []
    parts += [f"Xid {event.xid}" for event in gpu.events]
    parts += [_fault(f.function, f.action, f.value) for f in scenario.functions if f.gpu == index]
    return ", ".join(parts) or "none"


def _fault(function: str, action: str, value: int) -> str:
    words = {"hang": "hangs", "delay": f"takes {value} ms longer", "return": f"answers {value}"}
    return f"{function} {words[action]}"
