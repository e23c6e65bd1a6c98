"""Python's search for garbage, put off while very many objects are made that all stay."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Within it nothing is searched; objects that nobody refers to go at once all the same.

    Looking through all rows of a long table again and again took a third of the time.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
