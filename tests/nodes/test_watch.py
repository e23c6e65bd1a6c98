"""Looking at real servers: lines arrive, silence is told, and nothing stays behind."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from gpuferry.nodes.local import machine
from gpuferry.watch.stream import Streams
from tests.support.node import Node, NodeMaker

LOOKS = "ps -eo args | grep -c '[i]mport__' || true"


@pytest.fixture(scope="module")
def node(new_node: NodeMaker) -> Node:
    return new_node()


def until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def test_a_server_is_seen_another_says_why_not_and_nothing_stays(node: Node) -> None:
    absent = node.server.model_copy(update={"name": "absent", "port": 9})
    heard: list[str] = []
    with Streams([node.server, absent], 0.5, lambda seen: heard.append(seen.name)) as streams:
        streams.wait(30)
        first, second = streams.views()
        assert (first.name, first.trouble, first.gpus, first.alerts) == ("node", "", (), None)
        assert first.load is not None
        assert [disk.mount for disk in first.disks] == ["/", "/data"]
        assert (second.name, second.at) == ("absent", None)
        assert "refused" in second.trouble
        until(lambda: heard.count("node") >= 3, 20, f"lines stopped: {heard}")
        assert streams.history(6) is None
    until(lambda: node.run(LOOKS).strip() == "0", 20, "a process stayed on the server")


def test_a_server_that_goes_away_is_silent_and_comes_back(node: Node) -> None:
    with Streams([node.server], 0.5) as streams:
        streams.wait(30)
        assert streams.views()[0].at is not None
        machine.stop(node.stack, "node")
        until(lambda: streams.views()[0].at is None, 60, "old readings stay")
        assert "silent for" in streams.views()[0].trouble
        assert streams.views()[0].load is None
        machine.start(node.stack, "node")
        until(lambda: streams.views()[0].load is not None, 60, "it is not seen again")
