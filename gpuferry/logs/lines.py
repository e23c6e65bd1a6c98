"""From chunks to lines, in order. Pure."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpuferry.errors import StepFailed
from shipper import journal, keys
from shipper.containers import moment_of

# Of syslog; the field is whatever its writer put there.
_PRIORITIES = set("01234567")


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
            named = keys.parse(what)
            begin = named.first if named else 0
            found = _containers(raw.split(b"\n")[:-1], header["segments"], begin)
            return sorted(found, key=lambda line: line.time)
        return [_journal(journal.fields(entry)) for entry in journal.entries(raw)]
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError) as error:
        raise StepFailed(f"{what} is broken: {error}") from None


def _journal(entry: dict[str, bytes]) -> Line:
    text = {name: value.decode(errors="replace") for name, value in entry.items()}
    priority = text.get("PRIORITY", "")
    # Whoever may log can write these two; what systemd and Docker say is root's (journalctl(1) -u).
    by_root = text if text.get("_UID") == "0" else {}
    return Line(
        time=int(text["__REALTIME_TIMESTAMP"]),
        message=text.get("MESSAGE", ""),
        unit=text.get("_SYSTEMD_UNIT", ""),
        about=by_root.get("UNIT", ""),
        container=by_root.get("CONTAINER_NAME", ""),
        identifier=text.get("SYSLOG_IDENTIFIER") or text.get("_COMM", ""),
        pid=text.get("_PID", ""),
        priority=int(priority) if priority in _PRIORITIES else None,
    )


def _containers(raw: list[bytes], segments: list[dict[str, Any]], begin: int) -> Iterator[Line]:
    """`begin`: the time of a container of which no line tells one."""
    at = 0
    for segment in segments:
        own = raw[at : at + segment["lines"]]
        at += segment["lines"]
        # A line that tells no time has that of the one before, or of the first that tells one.
        moment = next(filter(None, map(moment_of, own)), begin)
        # Docker cuts a line at 16 KiB; only its last part ends with a newline.
        begun: dict[str, str] = {}
        for entry in own:
            moment = moment_of(entry) or moment
            stream, text = _written_by_docker(entry)
            text = begun.pop(stream, "") + text
            if not text.endswith("\n") and entry is not own[-1]:
                begun[stream] = text
                continue
            yield Line(
                moment, text.removesuffix("\n"), container=segment["container"], stream=stream
            )
        for stream, text in begun.items():
            yield Line(moment, text, container=segment["container"], stream=stream)


def _written_by_docker(entry: bytes) -> tuple[str, str]:
    """Stream and text of a line; one that was torn (a full disk, a power cut) comes as it is."""
    try:
        told = json.loads(entry)
        return str(told.get("stream", "")), told["log"] + ""
    except (ValueError, AttributeError, KeyError, TypeError):
        return "", entry.decode(errors="replace") + "\n"
