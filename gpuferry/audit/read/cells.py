"""One cell into one value, or a problem that names row, column, value and what is accepted."""

from __future__ import annotations

import datetime as dt
import difflib
import functools
import math
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from gpuferry.audit.read import units
from gpuferry.audit.read.columns import Column

YES = {"yes": True, "y": True, "true": True, "1": True, "no": False, "n": False, "false": False}
YES["0"] = False


@dataclass(frozen=True)
class Problem:
    """One mistake of a table."""

    row: str
    column: str
    value: str
    why: str
    accepted: str = ""

    def __str__(self) -> str:
        where = ", ".join(x for x in (self.row, self.column and f"column {self.column}") if x)
        value = f" {self.value!r}" if self.value else ""
        accepted = f" Accepted: {self.accepted}." if self.accepted else ""
        stop = "" if self.why.endswith("?") else "."
        return f"{where}:{value} {self.why}{stop}{accepted}"


def accepted(column: Column) -> str:
    """What a column takes, for people."""
    texts = {
        "size": units.SIZES, "duration": units.DURATIONS, "rate": units.RATES,
        "count": units.COUNTS, "bool": "yes or no", "date": "a date such as 2026-11-30",
        "percent": "a percentage such as 80 or 80 %", "number": "a number",
        "resolution": "width x height, such as 1920x1080", "path": "a path",
        "gpu": "a name of the catalogue, such as L40S (`./ferry audit gpus` lists them)",
        "text": "a text",
    }  # fmt: skip
    text = ", ".join(column.choices) if column.kind == "choice" else texts[column.kind]
    if column.kind in ("number", "percent") and (column.low or column.high < 1e30):
        limits = [f"from {column.low:g}"] + ([f"to {column.high:g}"] if column.high < 1e30 else [])
        text += " " + " ".join(limits)
    return text


def parse(column: Column, raw: Any, unit: str = "") -> units.Read | tuple[Any, str]:
    """(value, note) of a cell.

    Raises:
        ValueError: with the reason; :func:`accepted` says what would do.
    """
    return _parse_text(column, raw, unit) if type(raw) is str else _parse(column, raw, unit)


@functools.lru_cache(maxsize=65536)
def _parse_text(column: Column, raw: str, unit: str) -> units.Read | tuple[Any, str]:
    """The same word stands in thousands of rows."""
    return _parse(column, raw, unit)


def _parse(column: Column, raw: Any, unit: str) -> units.Read | tuple[Any, str]:
    """(value, note) of a cell.

    Raises:
        ValueError: with the reason; :func:`accepted` says what would do.
    """
    if isinstance(raw, float) and not math.isfinite(raw):
        raise ValueError("is not finite")
    if column.kind == "date":
        return _date(raw), ""
    if column.kind == "bool":
        return _yes(raw), ""
    _neither_truth_nor_time(raw)
    text = f"{raw:.15g}" if isinstance(raw, float) else str(raw).strip()
    _plain(column, text)
    if column.kind == "choice":
        word = re.sub(r"[\s_]+", "-", text.lower())
        if word not in column.choices:
            near = difflib.get_close_matches(word, column.choices, n=1)
            raise ValueError("is unknown" + (f"; did you mean {near[0]}?" if near else ""))
        return word, ""
    if column.kind in ("text", "path", "gpu"):
        return text, ""
    if column.kind == "resolution":
        return _resolution(text), ""
    return _quantity(column, text, unit)


def _neither_truth_nor_time(raw: Any) -> None:
    if isinstance(raw, bool):
        raise ValueError("is a yes or no")
    if isinstance(raw, dt.date | dt.time | dt.timedelta):
        raise ValueError("is a date or a time of day (the spreadsheet may have changed it)")


def _plain(column: Column, text: str) -> None:
    if not text.isprintable() and any(
        unicodedata.category(c) == "Cc" and c not in "\n\r\t" for c in text
    ):
        raise ValueError("holds a control character")
    if column.name == "id" and len(text.splitlines()) > 1:
        raise ValueError("has more than one line")


def _yes(raw: Any) -> bool:
    word = str(raw).strip().lower()
    if word not in YES:
        raise ValueError("is neither yes nor no")
    return YES[word]


def _resolution(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,6})\s*[xX\u00d7*]\s*(\d{1,6})", text)
    if not match or 0 in (size := (int(match.group(1)), int(match.group(2)))):
        raise ValueError("is no resolution")
    return size


def _quantity(column: Column, text: str, unit: str) -> units.Read:
    if column.kind == "size":
        read = units.size(text, unit)
    elif column.kind == "duration":
        read = units.duration(text, unit)
    elif column.kind == "rate":
        read = units.rate(text, unit)
    elif column.kind == "count":
        bare = re.search(r"[A-Za-z]", re.sub(r"[eE][-+]?\d+$", "", text)) is None
        read = units.count(text + unit if unit and bare else text)
    elif column.kind == "percent":
        read = units.percent(text)
    else:
        read = units.Read(units.number(text))
    if column.whole and read.value != int(read.value):
        raise ValueError("is no whole number")
    if read.value < column.low:
        raise ValueError("is negative" if read.value < 0 else "is too small")
    if read.value > column.high:
        raise ValueError("is too large")
    return read


def _date(raw: Any) -> dt.date:
    if isinstance(raw, dt.datetime):
        value = raw.date()
    elif isinstance(raw, dt.date):
        value = raw
    else:
        try:
            value = dt.date.fromisoformat(str(raw).strip())
        except ValueError:
            raise ValueError("is no date") from None
    if value > dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1):
        raise ValueError("lies in the future")
    if value.year < 2000:
        raise ValueError("is too long ago")
    return value
