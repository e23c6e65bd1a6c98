"""Names of objects in the store. Pure; the reading side uses it, too."""

from __future__ import annotations

import datetime
import hashlib
import re
from dataclasses import dataclass

LOGS = "gpuferry-logs/v1"
ROLLUPS = "gpuferry-rollups/v1"
_SEALED = ".age"
_KEY = re.compile(
    rf"{LOGS}/(?P<server>[^/]+)/\d{{4}}-\d\d-\d\d/(?P<source>[a-z]+)/"
    r"(?P<first>\d{16})-(?P<last>\d{16})-[0-9a-f]{12}\.gz(?P<sealed>\.age)?"
)
_UTC = datetime.timezone.utc  # noqa: UP017 - `datetime.UTC` is of Python 3.11


@dataclass(frozen=True)
class Chunk:
    """What the name of a chunk says; times are microseconds since 1970, of its lines."""

    key: str
    server: str
    source: str
    first: int
    last: int
    sealed: bool


def day(microseconds: int) -> str:
    """The UTC day of a moment, such as 2026-11-30."""
    return datetime.datetime.fromtimestamp(microseconds / 1e6, _UTC).date().isoformat()


def chunk(server: str, source: str, first: int, last: int, start: str, *, sealed: bool) -> str:
    """Name of a chunk; `start` says where in its source it begins.

    The day is that of the last line: all chunks that may hold lines after a moment have names after
    that moment's day, so a listing can begin there.
    """
    mark = hashlib.sha256(start.encode()).hexdigest()[:12]
    name = f"{first:016d}-{last:016d}-{mark}.gz{_SEALED if sealed else ''}"
    return f"{LOGS}/{server}/{day(last)}/{source}/{name}"


def parse(key: str) -> Chunk | None:
    """What a name says; None where it is no chunk's."""
    found = _KEY.fullmatch(key)
    if found is None:
        return None
    return Chunk(
        key,
        found["server"],
        found["source"],
        int(found["first"]),
        int(found["last"]),
        bool(found["sealed"]),
    )


def rollup(server: str, date: str, machine: str, *, sealed: bool) -> str:
    """Name of a day's account; a rebuilt server is another machine and has its own for that day."""
    return f"{ROLLUPS}/{server}/{date}/{machine[:12]}.json{_SEALED if sealed else ''}"
