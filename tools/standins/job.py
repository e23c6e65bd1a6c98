"""One operation that the engine asked for: where it logs, and what ends it early."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import grpc

from tools.standins.cancel import Cancellation
from tools.standins.protocol import engine_pb2, engine_pb2_grpc
from tools.standins.serve import connect


class EngineLog:
    """Sends progress lines to the engine; connects with the first line."""

    def __init__(self, address: str) -> None:
        """Remember the engine's address."""
        self._address = address
        self._lock = threading.Lock()
        self._stub: Any = None

    def line(self, urn: str, text: str) -> None:
        """Show one line beside a resource while it is being worked on.

        A line that cannot be delivered is lost: the command must not suffer from it.
        """
        with self._lock:
            if self._stub is None:
                self._stub = engine_pb2_grpc.EngineStub(connect(self._address))
        request = engine_pb2.LogRequest(
            severity=engine_pb2.INFO, message=text, urn=urn, ephemeral=True
        )
        with suppress(grpc.RpcError):
            self._stub.Log(request)


@dataclass(frozen=True)
class Job:
    """What an operation may do beside its work."""

    log: Callable[[str], None]
    cancellation: Cancellation
    timeout_seconds: float = 0

    @contextmanager
    def stoppable(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop` if the engine cancels, or the operation's timeout passes, meanwhile."""
        with self.cancellation.watch(stop, self.timeout_seconds):
            yield
