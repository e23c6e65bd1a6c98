"""From chunks to lines, in order. Pure."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpuferry.errors import StepFailed
from shipper import journal
from shipper.containers import moment_of


@dataclass(frozen=True)
class Line:
    """One line; `time` is microseconds since 1970."""

    time: int
    message: str
    unit: str = ""
    container: str = ""
    identifier: str = ""
    pid: str = ""
    priority: int | None = None
    stream: str = ""
    # A line of systemd about a unit is the unit's, too.
    about: str = ""


@dataclass(frozen=True)
class Wanted:
    """Which lines; times are microseconds since 1970, until is not included."""

    since: int = 0
    until: int = 1 << 62
    unit: str = ""
    container: str = ""

    def has(self, line: Line) -> bool:
        """Whether this is one of them."""
        if not self.since <= line.time < self.until:
            return False
        if self.container:
            return line.container == self.container
        if self.unit:
            return bool({line.unit, line.about} & {self.unit, f"{self.unit}.service"})
        return True


def lines(data: bytes, what: str) -> list[Line]:
    """All lines of a chunk (compressed), oldest first.

    Raises:
        StepFailed: it is broken, or has another size than it was written with.
    """
    try:
        head, _, raw = gzip.decompress(data).partition(b"\n")
        header = json.loads(head)
        if len(raw) != header["bytes"]:
            raise ValueError(f"{len(raw)} bytes of {header['bytes']}")
        if header["source"] == "containers":
            found = _containers(raw.split(b"\n")[:-1], header["segments"])
            return sorted(found, key=lambda line: line.time)
        return [_journal(journal.fields(entry)) for entry in journal.entries(raw)]
    except (OSError, EOFError, zlib.error, ValueError, KeyError, IndexError) as error:
        raise StepFailed(f"{what} is broken: {error}") from None


def _journal(entry: dict[str, bytes]) -> Line:
    text = {name: value.decode(errors="replace") for name, value in entry.items()}
    priority = text.get("PRIORITY", "")
    return Line(
        time=int(text["__REALTIME_TIMESTAMP"]),
        message=text.get("MESSAGE", ""),
        unit=text.get("_SYSTEMD_UNIT", ""),
        about=text.get("UNIT", ""),
        container=text.get("CONTAINER_NAME", ""),
        identifier=text.get("SYSLOG_IDENTIFIER") or text.get("_COMM", ""),
        pid=text.get("_PID", ""),
        priority=int(priority) if priority.isdigit() else None,
    )


def _containers(raw: list[bytes], segments: list[dict[str, Any]]) -> Iterator[Line]:
    at = 0
    for segment in segments:
        own = raw[at : at + segment["lines"]]
        at += segment["lines"]
        # Docker cuts a line at 16 KiB; only its last part ends with a newline.
        begun: dict[str, str] = {}
        for entry in own:
            told = json.loads(entry)
            stream, text = str(told.get("stream", "")), begun.pop(told.get("stream", ""), "")
            text += told["log"]
            if not text.endswith("\n") and entry is not own[-1]:
                begun[stream] = text
                continue
            yield Line(
                moment_of(entry), text.removesuffix("\n"), container=segment["container"],
                stream=stream,
            )  # fmt: skip
        for stream, text in begun.items():
            yield Line(moment_of(own[-1]), text, container=segment["container"], stream=stream)
