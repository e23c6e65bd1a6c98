"""Logs of a real server go to a real store: every line once, whatever dies in between."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from typing import Any

import pytest

from gpuferry.checking import run_checks
from gpuferry.errors import SpecError, StepFailed
from gpuferry.logs import seal
from gpuferry.logs.lines import Wanted
from gpuferry.operate import logs
from gpuferry.verdict import Verdict
from tests.support.log_store import LogStore, expected, settle, status, unlimited, write
from tests.support.marks import slow
from tests.support.node import Node, NodeMaker
from tests.support.simulated import wait_until

SPOOL = "/var/lib/gpuferry-logs/spool"
UNIT = "gpuferry-logs"
NO_DOCKER = "DOCKER_ALLOW_IPV6_ON_IPV4_INTERFACE=1"
# One layer with busybox, and containers that log so many lines.
DOCKER = f"""
apt-get -q update; apt-get -q -y install --no-install-recommends docker.io iptables \\
  busybox-static $(apt-cache show docker-cli >/dev/null 2>&1 && echo docker-cli)
mkdir -p /etc/systemd/system/docker.service.d /etc/docker
printf '[Service]\\nEnvironment={NO_DOCKER}\\n' > /etc/systemd/system/docker.service.d/test.conf
echo '{{"log-driver": "json-file", "log-opts": {{"max-size": "64k", "max-file": "3"}}}}' \\
  > /etc/docker/daemon.json
systemctl daemon-reload; systemctl restart docker
tar -C / -c usr/bin/busybox | docker import - box >/dev/null
"""
RUN = "docker run -q {how} --name {name} --network none box /usr/bin/busybox sh -c '{script}'"
COUNT = "for i in $(/usr/bin/busybox seq {}); do echo {} $i; done"


@pytest.fixture(scope="module")
def node(new_node: NodeMaker) -> Node:
    node = new_node("debian-13", name="gpu-1")
    unlimited(node)
    return node


@pytest.fixture(scope="module")
def store(node: Node) -> LogStore:
    return LogStore(node)


@pytest.fixture(scope="module")
def shipping(node: Node, store: LogStore) -> Node:
    node.play("log_shipping", **store.variables())
    return node


def verdicts(node: Node) -> dict[str, Verdict]:
    expected = {
        "hostname": node.server.name, "user": node.server.user, "roles": ["log_shipping"],
        "kind": "container", "logs": True,
    }  # fmt: skip
    found = run_checks([node.server], {node.server.name: expected}, select=["log_shipping"])
    return {v.id: v for v in found if v.id.startswith("log_shipping.")}


def stop(node: Node) -> None:
    node.run(f"systemctl stop {UNIT}")


def start(node: Node) -> None:
    node.run(f"systemctl reset-failed {UNIT}; systemctl start {UNIT}")


def test_without_the_role_the_checks_fail(node: Node) -> None:
    found = verdicts(node)
    assert {key: v.status for key, v in found.items()} == {
        "log_shipping.running": "fail",
        "log_shipping.ships": "fail",
        "log_shipping.complete": "not_measured",
    }


def test_a_store_without_tls_is_refused_before_anything_is_done(
    node: Node, store: LogStore
) -> None:
    place = {"endpoint": "http://192.0.2.1", "bucket": "x"}
    with pytest.raises(StepFailed, match=r"endpoint is http://192\.0\.2\.1; accepted: https"):
        node.play("log_shipping", **{**store.variables(), "log_shipping_store": place})
    node.run("test ! -e /etc/gpuferry/logs.json -a ! -e /etc/gpuferry/logs-credentials.json")


def test_it_changes_once(node: Node, store: LogStore) -> None:
    variables = store.variables()
    assert node.play("log_shipping", check_only=True, **variables).changed("gpu-1") > 0
    node.run("test ! -e /etc/gpuferry/logs.json")
    assert node.changed("log_shipping", **variables) > 0
    assert node.changed("log_shipping", **variables) == 0
    found = verdicts(node)
    assert {v.status for v in found.values()} == {"pass"}, found
    assert len(found) == 3


def test_its_sandbox_and_the_credentials_are_closed(shipping: Node, store: LogStore) -> None:
    said = shipping.run(f"systemd-analyze security --no-pager {UNIT} | tail -1")
    assert float(re.findall(r": (\d+\.\d+)", said)[0]) <= 2.5, said
    assert shipping.run("stat -c '%a %U' /etc/gpuferry/logs-credentials.json") == "600 root\n"
    secret = store.access["secret_key"]
    leaks = shipping.run(
        f"cat /proc/$(systemctl show -P MainPID {UNIT})/{{environ,cmdline}} | grep -ac '{secret}' "
        f"|| true; journalctl | grep -c '{secret}' || true"
    )
    assert leaks.split() == ["0", "0"]
    assert "CapEff:\t0000000000000000" in shipping.run(
        f"cat /proc/$(systemctl show -P MainPID {UNIT})/status"
    )


def test_every_line_arrives_once_and_in_order(shipping: Node, store: LogStore) -> None:
    lines = write(shipping, "plain", 20_000)
    settle(shipping)
    assert store.messages("gpu-1", "plain") == lines
    found = [line for line in store.lines("gpu-1") if line.message == "plain 00001"]
    assert [(line.unit, line.identifier) for line in found] == [("lines.service", "seq")]


def test_lines_of_any_kind_arrive_as_they_were(shipping: Node, store: LogStore) -> None:
    """Several lines in one, bytes that are no text, what looks like another entry, 100 kB."""
    shipping.run(
        r"""python3 - <<'END'
import socket
out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def send(value):
    size = len(value).to_bytes(8, "little")
    entry = b"SYSLOG_IDENTIFIER=odd\nMESSAGE\n" + size + value + b"\n"
    out.sendto(entry, "/run/systemd/journal/socket")
send(b"first\n\n__CURSOR=s=0;i=0;\n\nlast")
send(b"\xff\xfe not text")
send(b"x" * 100_000)
send(b"=\n=")
END
journalctl --sync"""
    )
    settle(shipping)
    found = [line.message for line in store.lines("gpu-1") if line.identifier == "odd"]
    assert found == [
        "first\n\n__CURSOR=s=0;i=0;\n\nlast", "\ufffd\ufffd not text", "x" * 100_000, "=\n=",
    ]  # fmt: skip


def test_a_store_that_is_away_costs_nothing(shipping: Node, store: LogStore) -> None:
    with store.down():
        lines = write(shipping, "away", 2000)
        wait_until("a chunk that waits", lambda: status(shipping)["trouble"], 30)
        assert status(shipping)["waiting_chunks"] > 0
    settle(shipping, 90)
    assert store.messages("gpu-1", "away") == lines
    told = status(shipping)
    assert (told["trouble"], told["dropped_lines"]) == ("", 0)
    assert "the object store takes logs again" in shipping.run(f"journalctl -u {UNIT}")


def test_wrong_credentials_are_tried_again_until_they_are_right(
    shipping: Node, store: LogStore
) -> None:
    path = "/etc/gpuferry/logs-credentials.json"
    shipping.run(f"cp -p {path} /root/kept")
    shipping.run(f"""echo '{{"access_key": "nobody", "secret_key": "x"}}' > {path}""")
    try:
        lines = write(shipping, "refused", 100)
        wait_until("a refusal", lambda: "HTTP 403" in status(shipping)["trouble"], 30)
    finally:
        shipping.run(f"cp -p /root/kept {path}")
    settle(shipping, 90)
    assert store.messages("gpu-1", "refused") == lines


@pytest.mark.parametrize(
    ("moment", "after"),
    [
        *slow(("shipper.spool:Spool.add", False)),
        ("shipper.spool:Spool.add", True),
        # Written, not yet asked for.
        *slow(("shipper.s3:Store._differs", False)),
        # Verified, the state does not know.
        ("shipper.s3:Store.put", True),
        *slow(("shipper.state:State.shipped", True), ("shipper.spool:Spool.remove", True)),
    ],
)
def test_kill_9_loses_and_doubles_nothing(
    shipping: Node, store: LogStore, moment: str, after: bool
) -> None:
    """The real program ends itself with SIGKILL at this place, once; then it is started again."""
    module, _, name = moment.partition(":")
    owner, _, method = name.partition(".")
    stop(shipping)
    prefix = f"kill-{method.strip('_')}-{int(after)}"
    lines = write(shipping, prefix, 500)
    home = "/usr/local/lib/gpuferry/logs"
    shipping.run(
        f"""cp {home}/start.py /root/start.py; rm -f /var/lib/gpuferry-logs/killed
python3 - <<'END'
path = "{home}/start.py"
text = open(path).read()
hook = '''
import os
import {module} as place
real = place.{owner}.{method}
def wrapped(*given, **named):
    mark = "/var/lib/gpuferry-logs/killed"
    first = not os.path.exists(mark)
    answer = real(*given, **named) if {after} or not first else None
    if first:
        open(mark, "w").close()
        os.kill(os.getpid(), 9)
    return answer
place.{owner}.{method} = wrapped

sys.exit('''
open(path, "w").write(text.replace("sys.exit(", hook, 1))
END
systemctl start {UNIT}"""
    )
    try:
        wait_until("the kill", lambda: shipping.run(
            "test -e /var/lib/gpuferry-logs/killed && echo yes || true").strip(), 30)  # fmt: skip
        lines += write(shipping, f"{prefix}-then", 100)
        # systemd does the same, five seconds later.
        shipping.run(f"systemctl restart {UNIT}")
        told = settle(shipping, 60)
    finally:
        # In this order: without the mark the one that still runs would end itself again.
        shipping.run(
            f"cp /root/start.py {home}/start.py; systemctl restart {UNIT}; "
            "rm -f /var/lib/gpuferry-logs/killed"
        )
    assert store.messages("gpu-1", prefix) == lines
    assert told["dropped_lines"] == 0


def test_a_stop_flushes(shipping: Node, store: LogStore) -> None:
    lines = write(shipping, "last-words", 300)
    started = time.monotonic()
    stop(shipping)
    assert time.monotonic() - started < 20
    assert store.messages("gpu-1", "last-words") == lines
    start(shipping)


@pytest.mark.slow
def test_a_stop_without_a_store_ends_in_time_and_loses_nothing(
    shipping: Node, store: LogStore
) -> None:
    with store.down():
        lines = write(shipping, "unsent", 300)
        started = time.monotonic()
        stop(shipping)
        assert time.monotonic() - started < 20
        shipping.run(f"ls {SPOOL}/*.chunk")
    start(shipping)
    settle(shipping, 60)
    assert store.messages("gpu-1", "unsent") == lines


def test_what_the_journal_threw_away_unread_is_counted(shipping: Node, store: LogStore) -> None:
    settle(shipping)
    stop(shipping)
    before = json.loads(shipping.run("cat /var/lib/gpuferry-logs/state.json"))["counters"]
    write(shipping, "thrown-away", 5000)
    shipping.run("journalctl --rotate; journalctl --vacuum-size=1K 2>/dev/null")
    lines = write(shipping, "kept", 10)
    start(shipping)
    told = settle(shipping)
    # Beside ours there are the lines of stop, rotation and logins.
    missed = told["missed_lines"] - before["missed_lines"]
    assert 5000 <= missed < 5100, told
    assert store.messages("gpu-1", "thrown-away") == []
    assert store.messages("gpu-1", "kept") == lines
    assert any(f"{missed} journal entries were gone" in line.message
               for line in store.lines("gpu-1"))  # fmt: skip
    found = verdicts(shipping)["log_shipping.complete"]
    assert found.status == "fail"
    assert f"{missed} lines missed" in found.measured


def test_a_full_spool_drops_the_oldest_and_counts_it(shipping: Node, store: LogStore) -> None:
    settle(shipping)
    variables = store.variables(log_shipping_spool_mib=1)
    assert shipping.changed("log_shipping", **variables) == 1
    with store.down():
        written: list[str] = []
        for number in range(4):
            written += write(shipping, f"bound-{number}", 20_000)
            shipping.run(f"systemctl kill -s USR1 {UNIT}")
        wait_until("a drop", lambda: status(shipping)["dropped_lines"], 30)
        size = int(shipping.run(f"du -s --block-size=1 {SPOOL} | cut -f1"))
        # Folder and the file that is being written come to it.
        assert size <= (1 << 20) + (1 << 18), size
    told = settle(shipping, 90)
    arrived = store.messages("gpu-1", "bound-")
    assert max(Counter(arrived).values()) == 1
    # Only the chunk that is just being sent is kept, so what is missing is one stretch.
    missing = sorted(set(written) - set(arrived))
    at = written.index(missing[0])
    assert missing == written[at : at + len(missing)], "not the oldest were dropped"
    assert arrived == written[:at] + written[at + len(missing) :]
    assert arrived[-1] == written[-1]
    dropped = told["dropped_lines"]
    # Dropped chunks held a few lines of others, too.
    assert len(written) - len(arrived) <= dropped < len(written) - len(arrived) + 500
    assert any("dropped" in line.message and "spool is full" in line.message
               for line in store.lines("gpu-1"))  # fmt: skip
    assert shipping.changed("log_shipping", **store.variables()) == 1


def test_container_logs_arrive_and_docker_logs_still_works(shipping: Node, store: LogStore) -> None:
    shipping.run(DOCKER, 300)
    shipping.run(RUN.format(how="-d", name="steady", script=COUNT.format(300, "steady")))
    # Docker rotates this one's file many times: 64 kB each, three of them.
    shipping.run(RUN.format(how="-d", name="loud", script=(
        "for r in $(/usr/bin/busybox seq 6); do "
        + COUNT.format(500, "loud $r") + "; /usr/bin/busybox sleep 1.5; done")))  # fmt: skip
    # Gone as soon as it has said everything.
    shipping.run(RUN.format(how="--rm", name="brief", script=(
        "/usr/bin/busybox sleep 2; " + COUNT.format(50, "brief"))))  # fmt: skip
    shipping.run("docker wait loud steady")
    assert shipping.run("docker logs steady | wc -l").strip() == "300"
    settle(shipping)
    assert store.messages("gpu-1", "steady") == [f"steady {i}" for i in range(1, 301)]
    loud = [f"loud {r} {i}" for r in range(1, 7) for i in range(1, 501)]
    assert store.messages("gpu-1", "loud") == loud
    assert store.messages("gpu-1", "brief") == [f"brief {i}" for i in range(1, 51)]
    own = store.lines("gpu-1", container="steady")
    assert {(line.container, line.stream) for line in own} == {("steady", "stdout")}
    assert status(shipping)["uncounted_gaps"] == 0


@pytest.mark.slow
def test_a_container_that_the_driver_hides_is_named(shipping: Node) -> None:
    shipping.run(RUN.format(how="-d --log-driver local", name="hidden", script="echo x"))
    wait_until("its name", lambda: status(shipping)["unread_containers"] == {"hidden": "local"}, 20)
    assert "hidden (driver local)" in verdicts(shipping)["log_shipping.complete"].measured
    shipping.run("docker rm -f hidden")
    wait_until("that it is gone", lambda: not status(shipping)["unread_containers"], 20)


def test_encrypted_logs_open_with_the_right_key_only(shipping: Node, store: LogStore) -> None:
    pair, other = seal.key_pair(lambda text: None), seal.key_pair(lambda text: None)
    canary = "canary-9c41-in-a-log"
    named = {"log_shipping_server": "sealed", "log_shipping_recipient": pair["recipient"]}
    assert shipping.changed("log_shipping", **store.variables(**named)) > 0
    try:
        lines = write(shipping, canary, 50)
        settle(shipping)
        assert store.messages("sealed", canary, pair["identity"]) == lines
        sealed = list(store.raw.rglob("*.age"))
        assert sealed
        assert all(canary.encode() not in path.read_bytes() for path in sealed)
        assert all(path.read_bytes().startswith(b"age-encryption.org/") for path in sealed)
        with pytest.raises(StepFailed, match="another key than this stack's"):
            store.lines("sealed", other["identity"])
    finally:
        shipping.play("log_shipping", **store.variables())


def test_a_hand_edit_is_mended(shipping: Node, store: LogStore) -> None:
    shipping.run(
        "echo '{}' > /etc/gpuferry/logs.json; rm /usr/local/lib/gpuferry/logs/shipper/s3.py"
    )
    assert shipping.changed("log_shipping", **store.variables()) == 1
    assert shipping.changed("log_shipping", **store.variables()) == 0
    settle(shipping)


def test_a_boot_goes_on_where_it_was(shipping: Node, store: LogStore) -> None:
    before = write(shipping, "boot", 200)
    shipping.restart()
    after = write(shipping, "boot-then", 200)
    settle(shipping)
    assert store.messages("gpu-1", "boot") == before + after


def test_old_chunks_are_removed_with_their_versions(shipping: Node, store: LogStore) -> None:
    settle(shipping)
    with store.archive() as archive:
        chunks = archive.chunks("gpu-1", Wanted())
        middle = chunks[len(chunks) // 2].last
        old = [chunk for chunk in chunks if chunk.last < middle]
        assert archive.prune(middle) == len(old) > 0
        assert all(chunk.last >= middle for chunk in archive.chunks("gpu-1", Wanted()))


def test_without_the_section_it_is_removed(shipping: Node) -> None:
    nothing: dict[str, Any] = {"log_shipping_store": {}, "log_shipping_credentials": {}}
    assert shipping.changed("log_shipping", **nothing) > 0
    assert shipping.changed("log_shipping", **nothing) == 0
    left = shipping.run(
        "ls -d /etc/gpuferry/logs* /usr/local/lib/gpuferry/logs "
        "/etc/systemd/system/*/gpuferry-logs* "
        f"2>/dev/null || true; systemctl is-active {UNIT} || true; ls /var/lib/gpuferry-logs"
    )
    assert left.split() == ["inactive", "spool", "state.json"]


def test_a_server_that_is_gone_can_still_be_read(store: LogStore) -> None:
    """Nothing but the bucket is asked."""
    with store.archive() as archive:
        assert "shipping to logs" in "\n".join(
            line.message for line in logs.read(archive, "gpu-1", Wanted())
        )
        with pytest.raises(SpecError, match=r"no logs of 'gpu-2'.* those of: gpu-1, "):
            list(logs.read(archive, "gpu-2", Wanted()))


@pytest.mark.slow
def test_debian_12(new_node: NodeMaker, store: LogStore, node: Node) -> None:
    other = new_node("debian-12", name="older", beside=node)
    unlimited(other)
    assert other.changed("log_shipping", **store.variables()) > 0
    assert other.changed("log_shipping", **store.variables()) == 0
    lines = write(other, "older", 2000)
    settle(other)
    assert store.messages("older", "older") == lines == expected("older", 2000)
    assert {v.status for v in verdicts(other).values()} == {"pass"}
