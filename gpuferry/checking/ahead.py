"""Readings that are under way while other checks run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Ahead:
    """A reading that was started already. A daemon: the end of a run does not wait for it."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read
        self._answer: Any = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answer = self._read()
        except Exception as error:
            self._error = error

    def wait(self) -> Any:
        """The answer; raises what the reading raised."""
        self._thread.join()
        if self._error:
            raise self._error
        return self._answer
