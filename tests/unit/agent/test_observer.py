"""Which GPUs there are, through what the driver says of them from one start to the next."""

from __future__ import annotations

from typing import Any

from agent.config import Config
from agent.observer import Observer
from agent.xid_book import XidBook

NAMED = {"index": 0, "uuid": "GPU-1", "name": "L4", "pci": "00000000:04:00.0"}
NAMELESS = {"index": 0, "error": 999, "text": "Unknown Error"}
RULES: dict[str, Any] = {"codes": {}, "recovery": {}, "decoded": {"codes": []}}


def observer(kept: dict[str, Any] | None = None) -> Observer:
    return Observer(Config(), "boot-1", kept or {}, XidBook(RULES, "boot-1", {}))


def hello(into: Observer, *gpus: dict[str, Any]) -> Observer:
    into.hello({"driver": "570", "gpus": list(gpus)})
    return into


def test_a_gpu_that_could_not_say_who_it_is_is_not_missed_once_it_can() -> None:
    o = hello(observer(), NAMELESS)
    o.account(10.0)
    assert "index-0" not in o.plain()["accounts"]
    assert list(hello(o, NAMED).gpus) == ["GPU-1"]
    assert (o.visible, o.expected) == (1, 1)


def test_a_known_gpu_that_cannot_say_who_it_is_stays_the_same_one() -> None:
    o = hello(hello(observer(), NAMED), NAMELESS)
    assert list(o.gpus) == ["GPU-1"]
    assert o.gpus["GPU-1"].error == 999


def test_a_gpu_that_is_gone_is_missed_also_by_the_next_agent() -> None:
    other = {**NAMED, "index": 1, "uuid": "GPU-2", "pci": "00000000:05:00.0"}
    o = hello(observer(hello(observer(), NAMED, other).plain()), NAMED)
    assert [gpu.seen for gpu in o.gpus.values()] == [True, False]


def test_gpus_that_do_not_tell_their_address_share_none() -> None:
    o = hello(observer(), {**NAMED, "pci": ""})
    assert o.gpus["GPU-1"].pci == ""
