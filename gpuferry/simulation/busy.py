"""Keep a simulated GPU busy from Python: `with busy(gpu=0): …`.

Standard library only, so that the file works on a server, too. It needs the simulated library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator


@contextlib.contextmanager
def busy(gpu: int = 0, percent: int = 100, memory_mib: int = 0) -> Iterator[None]:
    """Keep `percent` of a GPU busy and `memory_mib` of its memory, for the length of the block.

    Raises:
        OSError: no simulated GPUs on this machine, or its run folder cannot be written.
    """
    with Job(gpu, percent, memory_mib) as job, job.step():
        yield


class Job:
    """A process on a GPU whose memory stays while its steps come and go."""

    def __init__(self, gpu: int = 0, percent: int = 100, memory_mib: int = 0) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1", use_errno=True)
        if not hasattr(self._library, "gpusim_busy_open"):
            raise OSError("libnvidia-ml.so.1 on this machine is not the simulated one")
        self._library.gpusim_busy_open.restype = ctypes.c_void_p
        self._library.gpusim_busy_open.argtypes = [
            ctypes.c_uint,
            ctypes.c_uint,
            ctypes.c_ulonglong,
        ]
        self._library.gpusim_busy_set.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self._library.gpusim_busy_close.argtypes = [ctypes.c_void_p]
        self._mark = self._library.gpusim_busy_open(gpu, percent, memory_mib << 20)
        if not self._mark:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), "the run folder of the simulated GPUs")

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.gpusim_busy_close(self._mark)
        self._mark = None

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """The GPU computes for the length of the block."""
        self._library.gpusim_busy_set(self._mark, 1)
        try:
            yield
        finally:
            self._library.gpusim_busy_set(self._mark, 0)
