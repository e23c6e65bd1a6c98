"""What a server's line means: plain rows for the terminal and for the page. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gpuferry.harmless import all_harmless

Severity = Literal["info", "warning", "critical"]
# A server whose last line is older than this many periods is told as silent.
SILENT_PERIODS = 5


@dataclass(frozen=True)
class GpuRow:
    """One GPU; ratios 0 to 1, SI units, None where it is not known."""

    index: int
    uuid: str
    name: str
    utilization: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    state: str = "unknown"
    cause: str = ""
    severity: Severity = "info"
    for_seconds: float = 0.0
    evidence: str = ""
    next_step: str = ""
    beside: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class DiskRow:
    """Space of one mount."""

    mount: str
    size_bytes: float
    free_bytes: float


@dataclass(frozen=True)
class AlertRow:
    """One firing alert."""

    name: str
    server: str
    severity: str
    summary: str
    next_step: str
    since: str


@dataclass(frozen=True)
class ServerView:
    """One server as it is now; `trouble` says why something is not known."""

    name: str
    at: float | None = None
    load: float | None = None
    cpus: int | None = None
    memory_bytes: float | None = None
    memory_available_bytes: float | None = None
    driver: str = ""
    trouble: str = ""
    reboot_needed: bool = False
    gpus: tuple[GpuRow, ...] = ()
    disks: tuple[DiskRow, ...] = ()
    alerts: tuple[AlertRow, ...] | None = None


def server(name: str, line: Mapping[str, Any]) -> ServerView:
    """The view of one line of `gpuferry.watch.on_server`.

    Its texts are the server's, and of whoever named a process there.
    """
    line = all_harmless(line)
    agent, trouble, driver = line["agent"], "", ""
    gpus: tuple[GpuRow, ...] = ()
    if isinstance(agent, str):
        trouble = agent
    elif agent is not None:
        named = {process["pid"]: process for process in line["processes"]}
        gpus = tuple(_gpu(gpu, named) for gpu in agent["gpus"])
        driver, trouble = agent["driver"]["status"], _trouble(agent)
    return ServerView(
        name=name,
        at=line["at"],
        load=line["load"],
        cpus=line["cpus"],
        memory_bytes=line["memory_bytes"],
        memory_available_bytes=line["memory_available_bytes"],
        driver=driver,
        trouble=trouble,
        reboot_needed=line["reboot_needed"],
        gpus=gpus,
        disks=tuple(
            DiskRow(mount, space["size_bytes"], space["free_bytes"])
            for mount, space in line["disks"].items()
        ),
        alerts=_alerts(name, line["alerts"]),
    )


def _trouble(agent: Mapping[str, Any]) -> str:
    driver, visible = agent["driver"], agent["visible"]
    if driver["status"] == "hung":
        return f"the driver hangs in {driver['detail'] or 'a call'}"
    if driver["status"] != "ok":
        return f"driver {driver['status']}" + (f": {driver['detail']}" if driver["detail"] else "")
    if visible is not None and visible < agent["expected"]:
        return f"{visible} of {agent['expected']} GPUs are visible"
    if agent["stuck_disks"]:
        return f"does not answer: {', '.join(agent['stuck_disks'])}"
    return ""


def _gpu(told: Mapping[str, Any], named: Mapping[int, Mapping[str, Any]]) -> GpuRow:
    first, *others = told["states"] or [_UNKNOWN]
    pids = told["pids"] or []
    return GpuRow(
        index=told["index"],
        uuid=told["uuid"],
        name=told["name"],
        **told["readings"],
        state=first["name"],
        cause=first["cause"],
        severity=first["severity"],
        for_seconds=first["for_seconds"],
        evidence=first["evidence"],
        next_step=first["next_step"],
        beside=tuple(state["name"] for state in others),
        jobs=tuple(_job(pid, named.get(pid)) for pid in pids),
        seconds=told["seconds"],
    )


_UNKNOWN = {
    "name": "unknown", "cause": "", "severity": "info", "for_seconds": 0.0,
    "evidence": "nothing was judged yet", "next_step": "",
}  # fmt: skip


def _job(pid: int, process: Mapping[str, Any] | None) -> str:
    if process is None:
        return f"{pid}"
    return f"{process['name']} ({process['user']}, {pid}, {duration(process['seconds'])})"


def _alerts(name: str, told: Any) -> tuple[AlertRow, ...] | None:
    """What fires; that nothing can be told, or nobody judges, is an alert, too."""
    if told is None:
        return None
    trouble = told if isinstance(told, str) else ""
    if not trouble and not any(_is_alive(alert) for alert in told):
        trouble = (
            "Watchdog does not fire: Prometheus is down or just started, or alerts cannot be "
            "delivered"
        )
    rows = [] if isinstance(told, str) else [_alert(a) for a in told if not _is_alive(a)]
    if trouble:
        step = f"./ferry check {name} --only monitoring"
        rows.insert(0, AlertRow("NotWatched", name, "critical", trouble, step, ""))
    return tuple(rows)


def _is_alive(told: Mapping[str, Any]) -> bool:
    """The dead man's switch: it always fires, and its silence is the news."""
    return bool(told.get("labels", {}).get("alertname") == "Watchdog")


def _alert(told: Mapping[str, Any]) -> AlertRow:
    labels, texts = told.get("labels", {}), told.get("annotations", {})
    return AlertRow(
        name=labels.get("alertname", "?"),
        server=labels.get("server", labels.get("instance", "")),
        severity=labels.get("severity", ""),
        summary="; ".join(texts[name] for name in ("summary", "evidence") if texts.get(name)),
        next_step=texts.get("next_step", ""),
        since=told.get("startsAt", ""),
    )


def duration(seconds: float) -> str:
    """Two units at most: `45 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    hours, days = minutes // 60, minutes // 1440
    if hours < 1:
        return f"{minutes} min"
    if days < 1:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"
