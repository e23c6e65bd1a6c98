"""Functions of the library that a fault can be put into, read from its sources."""

from __future__ import annotations

import difflib
import functools
import re

from gpuferry.errors import SpecError
from gpuferry.paths import REPOSITORY

_DEFINED = re.compile(r"^(?:nvmlReturn_t |[A-Z0-9_]+_FUNCTION\()(nvml[A-Z]\w+)[(,]", re.MULTILINE)
# They ask for no fault: always "not supported", or needed before anything can be asked.
_WITHOUT = {"nvmlInternalGetExportTable", "nvmlEventSetFree"}


@functools.cache
def functions() -> tuple[str, ...]:
    """Names, in alphabetical order."""
    found = set()
    for path in (REPOSITORY / "gpusim/src").glob("*.c"):
        if path.name != "unsupported.c":
            found |= set(_DEFINED.findall(path.read_text(encoding="utf-8")))
    return tuple(sorted(found - _WITHOUT))


def known_function(name: str) -> str:
    """The name, if the library has it.

    Raises:
        SpecError: it has not.
    """
    if name in functions():
        return name
    near = difflib.get_close_matches(name, functions(), n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise SpecError(f"--function: the simulated library has no function {name!r}.{hint}")
