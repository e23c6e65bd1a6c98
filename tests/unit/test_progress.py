"""A play tells what it does, and not what it leaves out."""

import time

from gpuferry.converge.progress import Progress


def test_what_ends_or_takes_long_is_told_once_and_what_is_skipped_never():
    said = []
    progress = Progress(said.append, patience=0.05)
    progress.started("quick")
    progress.does_something()
    progress.does_something()
    progress.started("Reboot into the new driver")
    progress.started("slow")
    deadline = time.monotonic() + 5
    while "slow" not in said and time.monotonic() < deadline:
        time.sleep(0.01)
    progress.does_something()
    progress.started("never came to anything")
    progress.over()
    time.sleep(0.1)
    assert said == ["quick", "slow"]
