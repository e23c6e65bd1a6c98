"""A real store for logs, and servers that ship to it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

from gpuferry.logs.archive import Archive, open_archive
from gpuferry.logs.lines import Line, Wanted
from tests.support.bucket_store import BucketStore
from tests.support.node import Node
from tests.support.simulated import wait_until

DELAY = 1.0
_STATUS = "cat /run/gpuferry-logs/status.json"
_WRITE = "systemd-run -q --wait --collect --unit={unit} seq -f '{prefix} %05.0f' {count}"
# A unit's own limit is gone with the unit, before journald has read all that it wrote.
_NO_LIMIT = """
mkdir -p /etc/systemd/journald.conf.d
printf '[Journal]\nRateLimitIntervalSec=0\nStorage=persistent\n' \
  > /etc/systemd/journald.conf.d/99-test.conf
systemctl restart systemd-journald
"""


class LogStore(BucketStore):
    """One that servers ship their logs to."""

    def __init__(self, node: Node, bucket_name: str = "logs") -> None:
        super().__init__(node.stack, node.network, bucket_name)

    def variables(self, **more: Any) -> dict[str, Any]:
        """Of the role."""
        return {
            "log_shipping_store": {
                key: self.access[key] for key in ("endpoint", "bucket", "region", "ca_pem")
            },
            "log_shipping_credentials": {
                key: self.access[key] for key in ("access_key", "secret_key")
            },
            "log_shipping_delay_seconds": DELAY,
            **more,
        }

    @contextlib.contextmanager
    def archive(self, identity: str = "") -> Iterator[Archive]:
        """The reading side."""
        with open_archive({**self.access, "identity": identity}) as archive:
            yield archive

    def lines(self, server: str, identity: str = "", **wanted: Any) -> list[Line]:
        """All wanted lines of a server."""
        with self.archive(identity) as archive:
            asked = Wanted(**wanted)
            return list(archive.stream(archive.chunks(server, asked), asked))

    def messages(self, server: str, prefix: str, identity: str = "") -> list[str]:
        """Messages that begin so, in the order of the store."""
        found = [line.message for line in self.lines(server, identity)]
        return [text for text in found if text.startswith(prefix)]


def unlimited(node: Node) -> None:
    """Let the journal take as many lines as tests write."""
    node.run(_NO_LIMIT)


def write(node: Node, prefix: str, count: int, unit: str = "lines") -> list[str]:
    """Log so many lines; returns them once the journal has them."""
    node.run(_WRITE.format(unit=unit, prefix=prefix, count=count) + "\njournalctl --sync")
    return expected(prefix, count)


def expected(prefix: str, count: int) -> list[str]:
    """The lines of `write`."""
    return [f"{prefix} {number:05d}" for number in range(1, count + 1)]


def status(node: Node) -> dict[str, Any]:
    """What the shipper tells; one that is just starting is waited for."""
    found = wait_until("a status", lambda: node.run(f"{_STATUS} 2>/dev/null || true"), 30)
    return dict(json.loads(found))


def settle(node: Node, seconds: float = 30) -> dict[str, Any]:
    """Wait until everything that was logged before this call is in the store."""
    started = float(node.run("date +%s.%N"))
    node.run("systemctl kill --signal=USR1 gpuferry-logs")
    told: dict[str, Any] = {}

    def settled() -> bool:
        told.update(status(node))
        return bool(told.get("complete_until", 0) > started)

    deadline = time.monotonic() + seconds
    while not settled():
        assert time.monotonic() < deadline, f"waited {seconds} s for an empty spool: {told}"
        time.sleep(0.1)
    return told


__all__ = ["LogStore", "expected", "settle", "status", "unlimited", "wait_until", "write"]
