"""Runs on a server as root, standard library only: one line of JSON every few seconds.

It ends by itself when nobody reads any more. Arguments: the seconds between two lines, or
`history` and hours: one line with what Prometheus kept of the GPUs, if it runs here.
"""

from __future__ import annotations

import http.client
import json
import os
import pwd
import sys
import time
import urllib.parse
import urllib.request
from typing import Any

AGENT = "/etc/gpuferry/agent.json"
# There where the role `monitoring` is.
MONITORING = "/etc/gpuferry/monitoring/alertmanager.yml"
# Where the role `monitoring` has Alertmanager answer.
ALERTS = "http://127.0.0.1:9753/api/v2/alerts?inhibited=false&silenced=false"
# Where it has Prometheus answer.
PROMETHEUS = "http://127.0.0.1:9752/api/v1/query_range"
SERIES = {
    "utilization": "gpu_utilization_ratio",
    "memory_used_bytes": "gpu_memory_used_bytes",
    "power_watts": "gpu_power_watts",
    "temperature_celsius": "gpu_temperature_celsius",
}
# As many as a chart has room for.
_POINTS = 360
_ALERT_SECONDS = 10.0
_PATIENCE_SECONDS = 5.0
_MOUNTS = ("/", "/data")
# Nobody answers, or not what was asked for: cut short, of another program, no JSON.
_NO_ANSWER = (OSError, ValueError, http.client.HTTPException)
# Without the proxies of the environment: they would be shown the token.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as handle:
        return handle.read()


def agent() -> Any:
    """What the node agent tells; None without one, a sentence where it does not answer."""
    try:
        config = json.loads(_text(AGENT))
    except FileNotFoundError:
        return None
    host = f"[{config['listen']}]" if ":" in config["listen"] else config["listen"]
    try:
        token = _text(config["token_file"]).strip()
        request = urllib.request.Request(f"http://{host}:{config['port']}/state")
        request.add_header("Authorization", f"Bearer {token}")
        with _DIRECT.open(request, timeout=_PATIENCE_SECONDS) as answer:
            return json.load(answer)
    except _NO_ANSWER as error:
        return f"the node agent does not answer: {error}"


def alerts() -> Any:
    """Firing alerts; None where nobody watches, a sentence where Alertmanager does not answer."""
    if not os.path.exists(MONITORING):
        return None
    try:
        with _DIRECT.open(ALERTS, timeout=_PATIENCE_SECONDS) as answer:
            return json.load(answer)
    except _NO_ANSWER as error:
        return f"Alertmanager does not answer: {error}"


def process(pid: int) -> dict[str, Any] | None:
    """Name, user and age of a process; None when it is gone. Command lines are not read."""
    try:
        name = _text(f"/proc/{pid}/comm").strip()
        uid = os.stat(f"/proc/{pid}").st_uid
        started = int(_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")
    return {"pid": pid, "name": name, "user": user, "seconds": max(0.0, age)}


def disks() -> dict[str, dict[str, int]]:
    """Space of the mounts, as a user sees it."""
    found = {}
    for mount in _MOUNTS:
        if os.path.ismount(mount):
            space = os.statvfs(mount)
            found[mount] = {
                "size_bytes": space.f_blocks * space.f_frsize,
                "free_bytes": space.f_bavail * space.f_frsize,
            }
    return found


def look() -> dict[str, Any]:
    """One line, without the alerts."""
    memory = dict(line.split(":", 1) for line in _text("/proc/meminfo").splitlines())
    told = agent()
    pids = {p for gpu in told["gpus"] for p in gpu["pids"] or []} if isinstance(told, dict) else ()
    return {
        "at": time.time(),
        "load": float(_text("/proc/loadavg").split()[0]),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": int(memory["MemTotal"].split()[0]) * 1024,
        "memory_available_bytes": int(memory["MemAvailable"].split()[0]) * 1024,
        "reboot_needed": os.path.exists("/run/reboot-required"),
        "disks": disks(),
        "agent": told,
        "processes": [found for pid in sorted(pids) if (found := process(pid))],
    }


def history(hours: float) -> dict[str, dict[str, list[list[float]]]] | None:
    """By reading and GPU (UUID): [time, value]; None where no Prometheus runs."""
    now, found = time.time(), {}
    span = {"start": now - hours * 3600, "end": now, "step": max(15, int(hours * 3600 / _POINTS))}
    for reading, series in SERIES.items():
        query = urllib.parse.urlencode({"query": series, **span})
        try:
            with _DIRECT.open(f"{PROMETHEUS}?{query}", timeout=_PATIENCE_SECONDS) as answer:
                rows = json.load(answer)["data"]["result"]
        except (*_NO_ANSWER, KeyError):
            return None
        found[reading] = {
            row["metric"].get("uuid", ""): [[at, float(value)] for at, value in row["values"]]
            for row in rows
        }
    return found


def main() -> None:
    """Until the reader is gone."""
    if sys.argv[1] == "history":
        print(json.dumps(history(float(sys.argv[2]))))
        return
    seconds = float(sys.argv[1])
    firing, asked = None, 0.0
    while True:
        started = time.monotonic()
        if not asked or started - asked >= _ALERT_SECONDS:
            firing, asked = alerts(), started
        try:
            print(json.dumps({**look(), "alerts": firing}), flush=True)
        except BrokenPipeError:
            os._exit(0)
        time.sleep(max(0.1, seconds - (time.monotonic() - started)))


if __name__ == "__main__":
    main()
