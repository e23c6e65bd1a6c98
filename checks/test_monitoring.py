"""The role monitoring: agents are asked, rules evaluated, alerts arrive, nobody outside hears."""

import json

import pytest

from gpuferry.checking.mark import check

UNITS = "gpuferry-prometheus.service gpuferry-alertmanager.service"
LOG = (
    "see why with ./ferry ssh {server} -- "
    "sudo journalctl -u gpuferry-prometheus -u gpuferry-alertmanager -n 50"
)
ASK_AGENT = "run ./ferry check for the servers named, then ./ferry converge for them and {server}"
# Right after a start the first answers and evaluations take some seconds, so those are waited for.
ASK = r"""python3 -I - <<'END'
import json, time, urllib.request
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
def ask(url):
    try:
        with direct.open(url, timeout=5) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return None
def look():
    prometheus, alertmanager = "http://127.0.0.1:9752/api/v1", "http://127.0.0.1:9753/api/v2"
    targets = ask(prometheus + "/targets?state=active")
    rules = ask(prometheus + "/rules?type=alert")
    found = [r for g in (rules or {"data": {"groups": []}})["data"]["groups"] for r in g["rules"]]
    return {
        "targets": None if targets is None else [
            {"job": t["labels"]["job"], "server": t["labels"].get("server", ""),
             "health": t["health"], "error": t["lastError"]}
            for t in targets["data"]["activeTargets"]],
        "rules": None if rules is None else len(found),
        "failing": [
            r["name"] + ": " + r.get("lastError", "") for r in found if r["health"] == "err"],
        "alerts": None if (told := ask(alertmanager + "/alerts")) is None else sorted(
            {a["labels"]["alertname"] for a in told}),
    }
for attempt in range(60):
    said = look()
    targets = said["targets"]
    if attempt > 6 and targets is None:
        break
    answering = targets and all(t["health"] == "up" for t in targets)
    if answering and "Watchdog" in (said["alerts"] or []):
        break
    time.sleep(0.5)
print(json.dumps(said))
END"""
SOCKETS = (
    "for unit in gpuferry-prometheus gpuferry-alertmanager; do "
    "pid=$(systemctl show -P MainPID $unit); "
    'test "$pid" = 0 || ss -Hltnp | grep "pid=$pid,"; done; true'
)


def declared(expectations):
    return expectations.monitoring is not None


@pytest.fixture(scope="module")
def readings(node):
    show = f"systemctl show --property=Id --property=ActiveState --property=UnitFileState {UNITS}"
    return node.read(40, units=show, said=ASK, sockets=SOCKETS)


@pytest.fixture(scope="module")
def said(readings):
    told = readings["said"]
    return json.loads(told.output) if told.exit_code == 0 else None


@check(
    "monitoring.running",
    severity="major",
    next_step=LOG,
    deadline_seconds=45,
    applies=declared,
)
def test_running(readings, verdict):
    """Prometheus and Alertmanager run, and will after a boot."""
    lines = readings["units"].output.split()
    verdict.judge(
        lines.count("ActiveState=active") == 2 and lines.count("UnitFileState=enabled") == 2,
        measured=", ".join(lines) or readings["units"].trouble,
        expected="both active, enabled",
    )


@check(
    "monitoring.targets",
    severity="major",
    next_step=ASK_AGENT,
    deadline_seconds=45,
    applies=declared,
)
def test_targets(said, readings, expectations, verdict):
    """The agent of every watched server answers Prometheus, and no other is asked."""
    wanted = sorted(expectations.monitoring.targets)
    if said is None or said["targets"] is None:
        verdict.judge(False, measured=readings["said"].trouble or "Prometheus is silent",
                      expected=f"agents of {', '.join(wanted)} answer")  # fmt: skip
        return
    agents = [t for t in said["targets"] if t["job"] == "agent"]
    silent = [f"{t['server']}: {t['error'] or t['health']}" for t in said["targets"]
              if t["health"] != "up"]  # fmt: skip
    unwatched = expectations.monitoring.unwatched
    verdict.judge(
        sorted(t["server"] for t in agents) == wanted and not silent,
        measured="; ".join(silent) or f"{', '.join(t['server'] for t in agents)} answer",
        expected=f"agents of {', '.join(wanted)} answer",
        evidence="; ".join(f"{name} is not watched: {why}" for name, why in unwatched.items()),
    )


@check("monitoring.rules", severity="major", next_step=LOG, deadline_seconds=45, applies=declared)
def test_rules(said, readings, expectations, verdict):
    """Every rule is loaded, and none fails."""
    wanted = expectations.monitoring.alerts
    if said is None or said["rules"] is None:
        verdict.judge(False, measured=readings["said"].trouble or "Prometheus is silent",
                      expected=f"{wanted} rules")  # fmt: skip
        return
    verdict.judge(
        said["rules"] == wanted and not said["failing"],
        measured="; ".join(said["failing"]) or f"{said['rules']} rules, none fails",
        expected=f"{wanted} rules, none fails",
    )


@check(
    "monitoring.watchdog", severity="critical", next_step=LOG, deadline_seconds=45, applies=declared
)
def test_watchdog(said, readings, expectations, verdict):
    """The alert that always fires has reached Alertmanager."""
    declared = expectations.monitoring
    told = ", ".join(declared.receivers) or "nobody: alerts can only be looked at"
    silence = "somebody outside notices silence" if declared.dead_man else "silence goes unnoticed"
    alerts = said["alerts"] if said else None
    others = [name for name in alerts or [] if name != "Watchdog"]
    # The rule looks back so far: what was mended a moment ago still fails.
    if "AlertsNotDelivered" in others and "Watchdog" not in (alerts or []):
        silence += "; it is silent until 10 min after the last delivery that failed"
    verdict.judge(
        "Watchdog" in (alerts or []),
        measured=f"alerts: {', '.join(alerts) or 'none'}" if alerts is not None
        else readings["said"].trouble or "Alertmanager is silent",
        expected="Watchdog fires",
        evidence=f"told: {told}; {silence}" + (f"; firing: {', '.join(others)}" if others else ""),
    )  # fmt: skip


@check(
    "monitoring.closed", severity="critical", next_step=LOG, deadline_seconds=45, applies=declared
)
def test_closed(readings, verdict):
    """Both listen on loopback alone."""
    found = [line.split()[3] for line in readings["sockets"].output.splitlines()]
    verdict.judge(
        len(found) == 2 and all(address.startswith("127.0.0.1:") for address in found),
        measured=", ".join(found) or readings["sockets"].trouble or "nobody listens",
        expected="one address each, on 127.0.0.1",
    )
