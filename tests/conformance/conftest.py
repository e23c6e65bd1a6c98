"""Where the engine and the plugins come from.

The suite judges any pair of plugins. `GPUFERRY_CONFORMANCE_PATH` names a folder with others than
the stand-ins of this project (the official ones, say), `GPUFERRY_PULUMI` the engine's program.
"""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .engine import Stack

STANDINS = Path(__file__).resolve().parents[2] / "tools" / "bin"
PLUGINS = Path(os.environ.get("GPUFERRY_CONFORMANCE_PATH", STANDINS))
ENGINE = shutil.which(os.environ.get("GPUFERRY_PULUMI", "pulumi"))

# The Python that runs the tests runs the programs, whether or not its environment is active.
SEARCH_PATH = os.pathsep.join([str(PLUGINS), str(Path(sys.executable).parent), os.environ["PATH"]])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot be run here, with the reason."""
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        if ENGINE is None:
            reason = "no pulumi on PATH; set GPUFERRY_PULUMI to the engine's program"
            item.add_marker(pytest.mark.skip(reason=reason))
        marker = item.get_closest_marker("standin_only")
        if marker and PLUGINS != STANDINS:
            item.add_marker(pytest.mark.skip(reason=f"stand-in only: {marker.args[0]}"))


@pytest.fixture(scope="session")
def new_stack(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Stack]:
    """Return a function that makes an empty stack, by copying one that the engine made."""
    assert ENGINE
    template = Stack(tmp_path_factory.mktemp("template"), ENGINE, SEARCH_PATH)
    template.initialise()

    def copy() -> Stack:
        root = tmp_path_factory.mktemp("stack")
        shutil.copytree(template.root, root, dirs_exist_ok=True)
        return Stack(root, ENGINE, SEARCH_PATH)

    return copy


@pytest.fixture
def stack(new_stack: Callable[[], Stack]) -> Stack:
    """An empty stack."""
    return new_stack()
