"""5,000 lines a second for a minute, shipped by us and by systemd-journal-upload, side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.support.log_store import LogStore, settle, unlimited
from tests.support.node import Node, NodeMaker

RATE = 5000
SECONDS = 60
# Every fiftieth of a second its share; what was late is caught up.
_WRITER = """
import sys, time
began, written = time.monotonic(), 0
while written < {count}:
    due = min({count}, int((time.monotonic() - began) * {rate}) + 1)
    for number in range(written + 1, due + 1):
        text = "bench %08d: a line of the length that programs write, with a path /data/runs/%d\\n"
        sys.stdout.write(text % (number, number))
    sys.stdout.flush()
    written = due
    time.sleep(0.02)
"""
# Both keep their place and follow; the peer sends to a receiver on loopback, without TLS.
_PEER = """
apt-get -q update >/dev/null
apt-get -q -y install --no-install-recommends systemd-journal-remote >/dev/null
mkdir -p /tmp/received
systemd-run -q --unit=receiver /usr/lib/systemd/systemd-journal-remote \\
  --listen-http=127.0.0.1:19532 --output=/tmp/received/all.journal --split-mode=none
sleep 1
systemd-run -q --unit=peer --property=CPUAccounting=yes /usr/lib/systemd/systemd-journal-upload \\
  --url=http://127.0.0.1:19532 --follow --save-state=/tmp/received/state
"""
# User and system time of a unit's main process and of its children that ended.
_CPU = """
pid=$(systemctl show -P MainPID {unit}); test "$pid" != 0
python3 -c "
words = open('/proc/$pid/stat').read().rpartition(')')[2].split()
print(sum(int(words[i]) for i in (11, 12, 13, 14)) / {ticks})"
"""


@dataclass(frozen=True)
class Measured:
    """Shares are of one core, over the writing and the rest that had to be shipped."""

    ours: float
    peers: float
    seconds: float


def _cpu(node: Node, unit: str) -> float:
    ticks = int(node.run("getconf CLK_TCK"))
    return float(node.run(_CPU.format(unit=unit, ticks=ticks)))


def measure(maker: NodeMaker, number: int) -> Measured:
    """One run on a new server.

    Raises:
        AssertionError: the lines on the other side are not exactly those that were written.
    """
    node = maker(name=f"logs{number}")
    unlimited(node)
    store = LogStore(node)
    node.play("log_shipping", **store.variables(log_shipping_delay_seconds=10))
    node.run(_PEER, 300)
    settle(node)
    units = ("gpuferry-logs", "peer")
    before = [_cpu(node, unit) for unit in units]
    program = _WRITER.format(count=RATE * SECONDS, rate=RATE)
    began = time.monotonic()
    node.run(
        f"cat > /tmp/writer.py <<'END'\n{program}\nEND\n"
        "systemd-run -q --wait --collect --unit=writer python3 /tmp/writer.py; journalctl --sync",
        6 * SECONDS,
    )
    passed = time.monotonic() - began
    settle(node, 120)
    shares = [(_cpu(node, u) - b) / passed for u, b in zip(units, before, strict=True)]
    found = [m.partition(":")[0] for m in store.messages(node.server.name, "bench")]
    assert found == [f"bench {n:08d}" for n in range(1, RATE * SECONDS + 1)], len(found)
    return Measured(shares[0], shares[1], passed)
