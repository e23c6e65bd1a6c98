"""Rules that hold on servers and here: the pure files of `playbooks/module_utils`."""

from __future__ import annotations

import importlib.util
import types
from functools import cache

from gpuferry.paths import REPOSITORY


@cache
def shared(name: str) -> types.ModuleType:
    """One of them, by its name; they import nothing but the standard library."""
    path = REPOSITORY / "playbooks" / "module_utils" / f"{name}.py"
    found = importlib.util.spec_from_file_location(f"gpuferry_shared_{name}", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def source(name: str) -> str:
    """Text of one of them, to be run on a server."""
    text = (REPOSITORY / "playbooks" / "module_utils" / f"{name}.py").read_text(encoding="utf-8")
    return text.replace("from __future__ import annotations\n", "", 1)
