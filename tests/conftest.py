"""All tests: which of them run, in which order, and what of the person who runs them they see."""

from __future__ import annotations

import os
import signal
import threading

import pytest

for _name in ("GPUFERRY_STACK", "GPUFERRY_DIRECTORY"):
    os.environ.pop(_name, None)
# Started with `&` by a script, all of it ignores Ctrl-C, which tests send to what they start.
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Modules that take longest. Workers get whole modules, and one that began last would run alone.
_FIRST = (
    "test_lifecycle", "test_gpus", "test_docs", "test_interrupted_changes", "test_driver_upgrade",
    "test_alerts", "test_seeded_server", "test_log_shipping", "test_roles_effects",
    "test_gpu_checks", "test_monitoring", "test_no_disturb", "test_freeze", "test_updates",
    "test_roles_life", "test_kernel",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--slow` takes in the tests that are left out otherwise."""
    parser.addoption(
        "--slow", action="store_true", help="run the tests that are marked slow as well"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow, and begin with what takes longest."""
    if not config.getoption("--slow"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    return _FIRST.index(item.path.stem) if item.path.stem in _FIRST else len(_FIRST)
