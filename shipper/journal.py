"""The systemd journal, in the words of journalctl: its export format goes into chunks untouched.

journalctl's JSON costs it three times as much. Only the first and the last entry of a chunk are
parsed; of all others only the end is found.
https://systemd.io/JOURNAL_EXPORT_FORMATS/#journal-export-format
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from shipper.chunk import MOST_RAW_BYTES, Builder, Made

SOURCE = "journal"
# Beside these journalctl always tells cursor, times and boot.
FIELDS = (
    "MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "_PID", "_UID", "_COMM", "_SYSTEMD_UNIT", "UNIT",
    "_TRANSPORT", "CONTAINER_NAME",
)  # fmt: skip
_BLOCK = 1 << 18
# An entry without binary fields; a match is C all the way.
_PLAIN = re.compile(rb"(?:[A-Z0-9_]+=[^\n]*\n)+\n")
_CURSOR = re.compile(r"s=([0-9a-f]+);i=([0-9a-f]+);")
_COMMAND = ("journalctl", "--quiet", "--no-pager", "--output=export")


class JournalTrouble(Exception):
    """journalctl failed; in its own words."""


def missing(cursor: str, first: str) -> int | None:
    """Entries between two cursors; None: they are of different journals, nobody knows."""
    one, two = _CURSOR.match(cursor), _CURSOR.match(first)
    if one is None or two is None or one[1] != two[1]:
        return None
    return max(0, int(two[2], 16) - int(one[2], 16) - 1)


def chunks(
    cursor: str | None, units: tuple[str, ...], gap: Callable[[int | None], None]
) -> Iterator[Made]:
    """All entries after a cursor until now; without one, of this boot.

    `gap` is told when what followed the cursor is gone, with the number of entries.

    Raises:
        JournalTrouble: journalctl failed; chunks given before it are good.
    """
    where = ["--boot"] if cursor is None else [f"--cursor={cursor}"]
    command = [*_COMMAND, f"--output-fields={','.join(FIELDS)}", *where]
    command += [f"--unit={unit}" for unit in units]
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process:
            assert process.stdout is not None
            try:
                yield from _cut(process.stdout, cursor, gap)
                process.wait()
            finally:
                # Otherwise nobody wants the rest.
                process.terminate()
        if process.returncode != 0:
            errors.seek(0)
            said = errors.read(4000).decode(errors="replace").strip().splitlines()
            # Without any entry of these units journalctl ends with 1 and says nothing.
            if said:
                raise JournalTrouble(f"journalctl: {said[-1]}")


def entry_end(data: bytes, at: int) -> int:
    """Where the entry that begins at `at` ends; -1 where it is not whole."""
    plain = _PLAIN.match(data, at)
    if plain:
        return plain.end()
    while True:
        end = data.find(b"\n", at)
        if end < 0:
            return -1
        if end == at:
            return end + 1
        if data.find(b"=", at, end) < 0:
            # A binary field: its name, its size in 8 bytes, itself.
            end += 9 + int.from_bytes(data[end + 1 : end + 9], "little")
            if end >= len(data):
                return -1
        at = end + 1


def fields(entry: bytes) -> dict[str, bytes]:
    """Fields of one entry; of one that is there several times, all, with newlines between."""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(entry):
        end = entry.index(b"\n", at)
        if end == at:
            break
        name, is_plain, value = entry[at:end].partition(b"=")
        if not is_plain:
            size = int.from_bytes(entry[end + 1 : end + 9], "little")
            value = entry[end + 9 : end + 9 + size]
            end += 9 + size
        key = name.decode("ascii")
        found[key] = found[key] + b"\n" + value if key in found else value
        at = end + 1
    return found


def entries(data: bytes) -> Iterator[bytes]:
    """The entries of whole data.

    Raises:
        ValueError: it ends within one.
    """
    at = 0
    while at < len(data):
        end = entry_end(data, at)
        if end < 0:
            raise ValueError("the last entry is not whole")
        yield data[at:end]
        at = end


def _cut(pipe: Any, cursor: str | None, gap: Callable[[int | None], None]) -> Iterator[Made]:
    builder, begin, rest = Builder(), cursor, b""
    first, last = b"", b""
    seen = cursor is None
    while True:
        # One entry may have hundreds of MB; in blocks of one size that would be copied each time.
        block = pipe.read(max(_BLOCK, len(rest)))
        data = rest + block
        start = at = latest = count = 0
        while (end := entry_end(data, at)) > 0:
            if not seen:
                seen = True
                if _told(data[at:end], "__CURSOR") == cursor:
                    start = at = end
                    continue
                _look_for_gap(str(cursor), gap)
            latest, at, count = at, end, count + 1
        rest = data[at:]
        if count:
            first = first or data[start : entry_end(data, start)]
            last = data[latest:at]
            builder.add(data[start:at], count)
        if first and (builder.raw >= MOST_RAW_BYTES or not block):
            end_cursor = _told(last, "__CURSOR")
            times = [int(_told(entry, "__REALTIME_TIMESTAMP")) for entry in (first, last)]
            yield Made(
                SOURCE,
                builder,
                # The clock may have been set back in between.
                min(times),
                max(times),
                begin or _told(first, "__CURSOR"),
                end_cursor,
                [{"lines": builder.lines}],
            )
            builder, begin, first = Builder(), end_cursor, b""
        if not block:
            return


def _told(entry: bytes, name: str) -> str:
    return fields(entry)[name].decode()


def _look_for_gap(cursor: str, gap: Callable[[int | None], None]) -> None:
    """The entry at the cursor did not come: it is gone, or only not of the units any more."""
    command = [*_COMMAND, "--output-fields=_PID", f"--cursor={cursor}", "--lines=1"]
    asked = subprocess.run(command, capture_output=True, check=False, timeout=60)
    if asked.returncode != 0 or entry_end(asked.stdout, 0) < 0:
        gap(None)
        return
    found = _told(asked.stdout, "__CURSOR")
    if found != cursor:
        gap(missing(cursor, found))
