"""All tests: what the person who runs them has chosen for their own stacks is not theirs."""

from __future__ import annotations

import os
import signal
import threading

for _name in ("GPUFERRY_STACK", "GPUFERRY_DIRECTORY"):
    os.environ.pop(_name, None)
# Started with `&` by a script, all of it ignores Ctrl-C, which tests send to what they start.
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):
    signal.signal(signal.SIGINT, signal.default_int_handler)
