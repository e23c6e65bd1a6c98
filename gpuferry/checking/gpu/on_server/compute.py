"""Runs on the server in a process of its own: lets every GPU write to its memory and reads it back.

Standard library only, Python 3.9 or newer. Through the driver's own library, so that it needs no
CUDA. Never run on silicon by this project: only against a stand-in for libcuda.

Prints `{"gpus": […], "trouble": ""}`: `trouble` is what failed, empty when everything came back.
Numbers: NVIDIA, CUDA driver API reference.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from typing import Any

_WORDS = 1 << 20
_PATTERN = 0x5AC3F00D


class Failed(Exception):
    """A call of the driver failed."""


def call(cuda: Any, function: str, *arguments: Any) -> None:
    """Call a function of libcuda."""
    code = getattr(cuda, function)(*arguments)
    if code:
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(name))
        raise Failed(f"{function}: {(name.value or b'').decode() or 'error'} ({code})")


def exercise(cuda: Any, index: int) -> str:
    """Fill 4 MiB on the GPU and compare them here; returns the GPU's name."""
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    name = ctypes.create_string_buffer(100)
    call(cuda, "cuDeviceGet", ctypes.byref(device), index)
    call(cuda, "cuDeviceGetName", name, 100, device)
    call(cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        call(cuda, "cuCtxSetCurrent", context)
        call(cuda, "cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(_WORDS * 4))
        try:
            call(cuda, "cuMemsetD32_v2", memory, ctypes.c_uint(_PATTERN), ctypes.c_size_t(_WORDS))
            back = (ctypes.c_uint * _WORDS)()
            call(cuda, "cuMemcpyDtoH_v2", back, memory, ctypes.c_size_t(_WORDS * 4))
            wrong = sum(word != _PATTERN for word in back)
            if wrong:
                raise Failed(f"{wrong} of {_WORDS} words came back wrong")
        finally:
            cuda.cuMemFree_v2(memory)
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(device)
    return name.value.decode("utf-8", "replace")


def main() -> None:
    """Exercise all GPUs."""
    answer: dict[str, Any] = {"gpus": [], "trouble": ""}
    started = time.monotonic()
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int()
        call(cuda, "cuInit", 0)
        call(cuda, "cuDeviceGetCount", ctypes.byref(count))
        for index in range(count.value):
            try:
                answer["gpus"].append(exercise(cuda, index))
            except Failed as failed:
                raise Failed(f"GPU {index}: {failed}") from None
    except (OSError, AttributeError, Failed) as error:
        answer["trouble"] = str(error)
    answer["seconds"] = round(time.monotonic() - started, 2)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
