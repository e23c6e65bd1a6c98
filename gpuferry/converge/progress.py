"""Which task runs, told while it runs; one that is skipped is not told at all."""

from __future__ import annotations

import threading
from collections.abc import Callable

# A skipped task is over within milliseconds; what takes longer is really done.
_PATIENCE_SECONDS = 0.5


class Progress:
    """Tells a task's name once it turns out to do something."""

    def __init__(self, say: Callable[[str], None], patience: float = _PATIENCE_SECONDS) -> None:
        self._say = say
        self._patience = patience
        self._lock = threading.Lock()
        self._pending = ""
        self._timer: threading.Timer | None = None

    def started(self, name: str) -> None:
        """A task begins; the one before was skipped if nothing was told of it yet."""
        self.over()
        with self._lock:
            self._pending = name
        self._timer = threading.Timer(self._patience, self.does_something)
        self._timer.daemon = True
        self._timer.start()

    def does_something(self) -> None:
        """It ended on some server, or has run for a while."""
        with self._lock:
            name, self._pending = self._pending, ""
        if name:
            self._say(name)

    def over(self) -> None:
        """Nothing more to tell of it."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._pending = ""
