"""The process that calls NVML: one initialisation, then one line of JSON a second.

It ends when its reader is gone. `python -m agent.nvml.child MARK SECONDS`: MARK is a file
descriptor into whose memory it writes the name of the call it is about to make, so that the parent
can say which one never came back.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import signal
import sys
import time
from typing import Any

import pynvml

from agent.nvml.getters import DEVICE_ERRORS, GETTERS, believed, reason

MARK_BYTES = 128
_EVENTS_PER_CYCLE = 64
# A process sees a GPU only that was there at its start: one that could not say who it is gets
# another process after that time, which costs a second or two of readings.
_LOOK_AGAIN_SECONDS = 120.0
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
# It holds the GPUs' device files; what looks for GPU work knows it by this name.
NAME = b"gpuferry-agent"


class Child:
    """NVML through one process life."""

    def __init__(self, mark: mmap.mmap, out: Any) -> None:
        self._mark = mark
        self._out = out
        self._handles: dict[str, Any] = {}
        self._indices: dict[str, int] = {}
        self._unavailable: dict[str, dict[str, str]] = {}
        self._events: Any = None
        self.all_known = True
        """Whether every GPU could say who it is."""

    def _about_to(self, function: str, gpu: int | None = None) -> None:
        text = function if gpu is None else f"{function} (GPU {gpu})"
        self._mark[:MARK_BYTES] = text.encode()[:MARK_BYTES].ljust(MARK_BYTES, b"\0")

    def tell(self, kind: str, **values: Any) -> None:
        """Write one line; its reader sees it whole."""
        self._out.write(json.dumps({"kind": kind, **values}, separators=(",", ":")) + "\n")
        self._out.flush()

    def start(self) -> bool:
        """Initialise and tell what GPUs there are; False when the driver refuses."""
        try:
            self._about_to("nvmlInit")
            pynvml.nvmlInit()
            self._about_to("nvmlDeviceGetCount")
            count = pynvml.nvmlDeviceGetCount()
        except (pynvml.NVMLError, OSError) as error:
            self.tell("failed", code=getattr(error, "value", 0), text=_text(error))
            return False
        if count == 0:
            # They may come later, and a process sees those only that were there at its start.
            self.tell("failed", code=0, text="the driver shows no GPU")
            return False
        gpus = [self._identify(index) for index in range(count)]
        self.all_known = not any("error" in gpu for gpu in gpus)
        driver = self._optional(lambda: pynvml.nvmlSystemGetDriverVersion())
        self._listen()
        self.tell("hello", gpus=gpus, driver=driver or "")
        return True

    def _identify(self, index: int) -> dict[str, Any]:
        """Identity is the one thing that is not optional."""
        try:
            self._about_to("nvmlDeviceGetHandleByIndex", index)
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            self._about_to("nvmlDeviceGetUUID", index)
            uuid = str(pynvml.nvmlDeviceGetUUID(handle))
        except pynvml.NVMLError as error:
            return {"index": index, "error": error.value, "text": _text(error)}
        self._handles[uuid], self._indices[uuid] = handle, index
        self._about_to("nvmlDeviceGetName", index)
        name = self._optional(lambda: pynvml.nvmlDeviceGetName(handle))
        self._about_to("nvmlDeviceGetPciInfo", index)
        pci = self._optional(lambda: pynvml.nvmlDeviceGetPciInfo(handle).busId)
        return {"index": index, "uuid": uuid, "name": name or "", "pci": pci or ""}

    @staticmethod
    def _optional(read: Any) -> str | None:
        try:
            value = read()
        except pynvml.NVMLError:
            return None
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def _listen(self) -> None:
        """Xids as events; the kernel's log is read as well, so this is optional."""
        try:
            self._about_to("nvmlEventSetCreate")
            events = pynvml.nvmlEventSetCreate()
            for handle in self._handles.values():
                self._about_to("nvmlDeviceRegisterEvents")
                pynvml.nvmlDeviceRegisterEvents(
                    handle, pynvml.nvmlEventTypeXidCriticalError, events
                )
        except pynvml.NVMLError:
            return
        self._events = events

    def _xids(self) -> list[list[Any]]:
        """Events since the last cycle: [uuid, code]. Asked without waiting: no call stays open."""
        found: list[list[Any]] = []
        while self._events is not None and len(found) < _EVENTS_PER_CYCLE:
            try:
                self._about_to("nvmlEventSetWait")
                event = pynvml.nvmlEventSetWait(self._events, 0)
            except pynvml.NVMLError_Timeout:
                break
            except pynvml.NVMLError:
                self._events = None
                break
            if event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                device = ctypes.cast(event.device, ctypes.c_void_p).value
                uuid = next((u for u, h in self._handles.items()
                             if ctypes.cast(h, ctypes.c_void_p).value == device), "")  # fmt: skip
                found.append([uuid, int(event.eventData)])
        return found

    def cycle(self, number: int) -> None:
        """Read what is due and tell it."""
        started = time.monotonic()
        gpus = {uuid: self._gpu(uuid, handle, number) for uuid, handle in self._handles.items()}
        self.tell(
            "sample", at=started, took=time.monotonic() - started, gpus=gpus, xids=self._xids()
        )

    def _gpu(self, uuid: str, handle: Any, number: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        unavailable = self._unavailable.setdefault(uuid, {})
        before = dict(unavailable)
        unknown: Exception | None = None
        for getter in GETTERS:
            if number % getter.every:
                continue
            self._about_to(getter.function, self._indices[uuid])
            try:
                answer = getter.read(handle)
            except Exception as error:
                # pynvml raises more than NVMLError; no getter is worth the others.
                code = getattr(error, "value", None)
                if code in DEVICE_ERRORS:
                    return self._failed(uuid, error)
                if code == pynvml.NVML_ERROR_UNKNOWN:
                    unknown = error
                unavailable.update(dict.fromkeys(getter.names, reason(error)))
                continue
            for name, value in zip(getter.names, answer, strict=True):
                values[name] = value
                unavailable.pop(name, None)
        if unknown and not values:
            # One call that fails so is one reading less; all of them are the GPU.
            return self._failed(uuid, unknown)
        kept, doubted = believed(values)
        unavailable.update(dict.fromkeys(doubted, "implausible"))
        told: dict[str, Any] = {"values": kept}
        if unavailable != before or number == 0:
            told["unavailable"] = unavailable
        return told

    def _failed(self, uuid: str, error: Exception) -> dict[str, Any]:
        """Nothing told before counts; what is not to be had is told anew when it answers again."""
        self._unavailable.pop(uuid, None)
        return {"error": getattr(error, "value", 0), "text": _text(error)}


def _text(error: Exception) -> str:
    return str(error)[:200]


def main() -> int:
    """Run until the reader is gone."""
    # A Python handler would wait for a call that never returns; the default ends it at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = ctypes.CDLL(None)
    process.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    process.prctl(_PR_SET_NAME, NAME)
    mark = mmap.mmap(int(sys.argv[1]), MARK_BYTES)
    period = float(sys.argv[2])
    child = Child(mark, sys.stdout)
    if not child.start():
        return 3
    number, due = 0, time.monotonic()
    look_again = due + _LOOK_AGAIN_SECONDS
    while child.all_known or due < look_again:
        try:
            child.cycle(number)
        except BrokenPipeError:
            return 0
        number += 1
        # Missed cycles are left out, not caught up with.
        due = max(due + period, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    return 3


if __name__ == "__main__":
    sys.exit(main())
