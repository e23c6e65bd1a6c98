"""The role log_shipping: what is logged now is in the store a moment later; nothing was lost."""

import json

import pytest

from gpuferry.checking.mark import check
from gpuferry.checking.unit_state import judge_runs, show
from gpuferry.logs import losses

UNIT = "gpuferry-logs.service"
LOG = "see why with ./ferry ssh {server} -- sudo journalctl -u gpuferry-logs -n 50"
# Asked to ship at once, the shipper logs that; the check waits until the store was seen to have it.
SHIP = r"""python3 -I - <<'END'
import json, subprocess, time
PATH = "/run/gpuferry-logs/status.json"
def status():
    try:
        return json.load(open(PATH))
    except (OSError, ValueError):
        return {}
before, asked = status().get("shipped_lines", 0), time.time()
active = subprocess.run(["systemctl", "is-active", "--quiet", "gpuferry-logs.service"])
for attempt in range(200 if active.returncode == 0 else 1):
    if attempt % 10 == 0:
        subprocess.run(["systemctl", "kill", "--signal=USR1", "gpuferry-logs.service"],
                       check=False, stderr=subprocess.DEVNULL)
    told = status()
    if told.get("shipped_lines", 0) > before and told["complete_until"] > asked:
        break
    time.sleep(0.1)
print(json.dumps({**told, "shipped": told.get("shipped_lines", 0) - before,
                  "complete": told.get("complete_until", 0) > asked}))
END"""


@pytest.fixture(scope="module")
def readings(node):
    return node.read(28, unit=show(UNIT), said=SHIP)


@pytest.fixture(scope="module")
def told(readings):
    said = readings["said"]
    return json.loads(said.output) if said.exit_code == 0 else None


def _declared(expected):
    return expected.logs


@check("log_shipping.running", severity="major", next_step=LOG, applies=_declared,
       deadline_seconds=30)  # fmt: skip
def test_running(readings, verdict):
    """The shipper runs, and will after a boot."""
    judge_runs(readings["unit"], verdict)


@check("log_shipping.ships", severity="major", next_step=LOG, applies=_declared,
       deadline_seconds=30)  # fmt: skip
def test_ships(told, readings, verdict):
    """A line that is logged now is verified in the store within 20 s."""
    if told is None:
        verdict.judge(False, measured=readings["said"].trouble, expected="a verified write")
        return
    waiting = told.get("waiting_chunks", 0)
    verdict.judge(
        told["shipped"] > 0 and told["complete"],
        measured=f"{told['shipped']} lines verified, {waiting} chunks wait",
        expected="all that was logged until then is verified",
        evidence=told.get("trouble", ""),
    )


@check("log_shipping.complete", severity="minor", next_step=LOG, applies=_declared,
       deadline_seconds=30)  # fmt: skip
def test_complete(told, readings, verdict):
    """Nothing was dropped or missed within a day, or is of a kind that is not read."""
    if told is None or "dropped_lines" not in told:
        verdict.not_measured(f"the shipper has told nothing yet; {readings['said'].trouble}")
        return
    well, measured = losses.judge(told)
    verdict.judge(
        well,
        measured=measured,
        expected=f"nothing was lost within {losses.TOLD_HOURS} h, and every container is read",
    )
