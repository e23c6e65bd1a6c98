"""The role agent: it runs, sees the GPUs, and answers nobody outside."""

import json

import pytest

from gpuferry.checking.mark import check
from gpuferry.checking.unit_state import judge_runs, show

UNIT = "gpuferry-agent.service"
LOG = "see why with ./ferry ssh {server} -- sudo journalctl -u gpuferry-agent -n 50"
# One run as root: the token is the agent's own. An agent that began before its driver was there
# (a first boot) looks again every 15 s at most, so that is waited for.
ASK = r"""python3 -I - <<'END'
import json, time, urllib.error, urllib.request
config = json.load(open("/etc/gpuferry/agent.json"))
host = config["listen"]
address = f"[{host}]" if ":" in host else host
# Without the proxies of the environment: they would be shown the token.
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
def ask(path, headers={}):
    request = urllib.request.Request(f"http://{address}:{config['port']}{path}", headers=headers)
    try:
        with direct.open(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
token = open(config["token_file"]).read().strip()
known = {"Authorization": f"Bearer {token}"}
for _ in range(30):
    if json.loads(ask("/state", known)[1])["driver"]["status"] not in ("starting", "failed"):
        break
    time.sleep(0.5)
lines = ask("/metrics", known)[1].splitlines()
ages = [line.split()[1] for line in lines if line.startswith("node_agent_snapshot_age_seconds ")]
# One that was lost is still in the driver's list; it only has no readings.
answering = sum(float(line.split()[-1]) for line in lines if line.startswith("gpu_up{"))
print(json.dumps({"stranger": ask("/metrics")[0], "state": json.loads(ask("/state", known)[1]),
                  "age": float(ages[0]) if ages else None, "answering": int(answering)}))
END"""


@pytest.fixture(scope="module")
def readings(node):
    return node.read(28, unit=show(UNIT), said=ASK)


@pytest.fixture(scope="module")
def said(readings):
    told = readings["said"]
    return json.loads(told.output) if told.exit_code == 0 else None


@check("agent.running", severity="major", next_step=LOG, deadline_seconds=30)
def test_running(readings, verdict):
    """The agent runs, and will after a boot."""
    judge_runs(readings["unit"], verdict)


@check("agent.sees", severity="major", next_step=LOG, deadline_seconds=30)
def test_sees(said, readings, expectations, verdict):
    """Its readings are fresh and of every declared GPU."""
    wanted = expectations.gpu.count if expectations.gpu else 0
    if said is None:
        verdict.judge(False, measured=readings["said"].trouble, expected="an answer on loopback")
        return
    state, age = said["state"], said["age"]
    driver, answering = state["driver"]["status"], said["answering"]
    fresh = age is not None and age < 10
    verdict.judge(
        driver == "ok" and fresh and answering == wanted,
        measured=f"driver {driver}, {answering} of {state['visible']} GPUs answer, readings "
        + (f"{age:.0f} s old" if age is not None else "missing"),
        expected=f"driver ok, {wanted} GPUs answer, readings less than 10 s old",
        evidence=state["driver"]["detail"],
    )


@check("agent.closed", severity="critical", next_step=LOG, deadline_seconds=30)
def test_closed(said, readings, verdict):
    """Only who has the token is told anything."""
    if said is None:
        verdict.judge(False, measured=readings["said"].trouble, expected="an answer on loopback")
        return
    verdict.judge(
        said["stranger"] == 401,
        measured=f"without the token: status {said['stranger']}",
        expected="status 401",
    )
