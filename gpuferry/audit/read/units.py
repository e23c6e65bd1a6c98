"""Numbers with units as people write them; whatever has two readings is refused or noted.

Sizes become bytes, durations seconds, rates bytes per second, counts plain numbers.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

GB = 10**9
GIB = 2**30

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_NUMBER = re.compile(r"[-+]?(?:\d[\d_ \u00a0\u202f']*)?(?:[.,]\d+)*(?:[eE][-+]?\d+)?")
_SIZE_UNIT = re.compile(r"([kKmMgGtTpP]?)(i?)([bB]?)")
_SECONDS = {
    "ms": 0.001, "s": 1, "sec": 1, "second": 1, "seconds": 1, "m": 60, "min": 60, "mins": 60,
    "minute": 60, "minutes": 60, "h": 3600, "hr": 3600, "hrs": 3600, "hour": 3600,
    "hours": 3600, "d": 86400, "day": 86400, "days": 86400, "w": 604800, "week": 604800,
    "weeks": 604800,
}  # fmt: skip
SIZES = "a size with its unit, such as 24 GiB, 24 GB, 24G (read as GiB) or 1.5 TB"
DURATIONS = "a duration with its unit, such as 45 s, 90 min, 4h, 1h30m or 2 d"
RATES = "a rate with its unit, such as 25 Gbit/s, 25GbE or 3.1 GB/s"
COUNTS = "a number, such as 7B, 350M, 1.3e9 or 12000"


class Read(NamedTuple):
    """A value in its base unit, and how an unclear text was understood (empty: it was clear)."""

    value: float
    note: str = ""


def number(text: str) -> float:
    """A finite number.

    Raises:
        ValueError: none, or one that can be read in two ways such as `1,500`.
    """
    bare = re.sub(r"[_ \u00a0\u202f']", "", text.strip())
    if re.fullmatch(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?", bare):
        if bare.count(",") == 1 and "." not in bare:
            whole, decimal = bare.replace(",", ""), bare.replace(",", ".")
            raise ValueError(f"can be read as {whole} or as {decimal}; write one of these")
        bare = bare.replace(",", "")
    elif re.fullmatch(r"[-+]?\d{1,3}(\.\d{3}){2,}(,\d+)?|[-+]?\d{1,3}\.\d{3},\d+", bare):
        bare = bare.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"[-+]?\d*,\d+([eE][-+]?\d+)?", bare):
        bare = bare.replace(",", ".")
    try:
        value = float(bare)
    except ValueError:
        raise ValueError("is no number") from None
    if not math.isfinite(value):
        raise ValueError("is not finite")
    return value


def split(text: str) -> tuple[str, str]:
    """A text's leading number and the unit behind it."""
    match = _NUMBER.match(text.strip())
    head = match.group() if match else ""
    return head.strip(), text.strip()[len(head) :].strip()


def size(text: str, unit: str = "") -> Read:
    """Bytes. `unit` is for a bare number (the column's name says it); empty: a unit is required.

    One letter is read as binary, as `df -h`, `free -h`, Docker and Slurm print it, and noted.

    Raises:
        ValueError: no number, no unit, bits, or an unknown unit.
    """
    head, given = split(text)
    value = number(head)
    given = given or unit
    if not given:
        raise ValueError("has no unit")
    if given.lower() in ("byte", "bytes"):
        return Read(value)
    match = _SIZE_UNIT.fullmatch(given)
    if not match or not match.group():
        raise ValueError(_size_problem(given))
    prefix, binary, byte = match.groups()
    power = _POWERS[prefix.lower()]
    if byte == "b" and not binary and prefix.isupper():
        raise ValueError(f"{given} means bits; write {prefix}B or {prefix}iB for bytes")
    if binary and not prefix:
        raise ValueError(_size_problem(given))
    if binary or (prefix and not byte):
        note = thousands(head, f"{prefix.upper()}iB")
        if not binary:
            note = f"{head}{given} is read as {value:g} {prefix.upper()}iB"
        return Read(value * 1024**power, note)
    if not prefix and not byte:
        raise ValueError("has no unit")
    return Read(value * 1000.0**power, thousands(head, given))


def thousands(head: str, unit: str) -> str:
    """A note where a point may have been meant to part thousands, as in `1.500 GB`."""
    if not re.fullmatch(r"[-+]?[1-9]\d{0,2}\.\d{3}", head.strip()):
        return ""
    return f"{head} {unit} is read as {float(head):g} {unit}, not {head.replace('.', '')}"


def _size_problem(unit: str) -> str:
    if re.search(r"(?i)bit|bps|/s", unit):
        return f"{unit!r} is a rate, not a size"
    return f"{unit!r} is no unit of size"


def duration(text: str, unit: str = "") -> Read:
    """Seconds; `1h30m` and `4 h` are both understood.

    Raises:
        ValueError: no number, no unit, an unknown unit.
    """
    parts = re.findall(r"([-+]?[\d.,]+(?:[eE][-+]?\d+)?)\s*([A-Za-z]*)", text.strip())
    if not parts or "".join(a + b for a, b in parts) != re.sub(r"\s", "", text):
        raise ValueError("is no duration")
    if len(parts) == 1 and not parts[0][1]:
        parts = [(parts[0][0], unit)]
    total = 0.0
    for head, name in parts:
        if not name:
            raise ValueError("has no unit")
        if name == "M" or name.lower() not in _SECONDS:
            raise ValueError(f"{name!r} is no unit of time")
        total += number(head) * _SECONDS[name.lower()]
    return Read(total)


def rate(text: str, unit: str = "") -> Read:
    """Bytes per second; bits and bytes must be told apart.

    Raises:
        ValueError: no number, or a unit that leaves bits or bytes open.
    """
    head, given = split(text)
    value = number(head)
    given = given or unit
    bits = re.fullmatch(r"([kKmMgGtT])(?:bps|bits?/s|bit/sec|b/s|bE|be)", given)
    if bits and not re.fullmatch(r"[kKmMgGtT]B/s", given):
        return Read(value * 1000.0 ** _POWERS[bits.group(1).lower()] / 8)
    per_second = re.fullmatch(r"([kKmMgGtT]?i?B)(?:/s|ps|/sec)", given)
    if per_second:
        return Read(size(f"{head} {per_second.group(1)}").value)
    raise ValueError("leaves open whether bits or bytes per second are meant")


def count(text: str) -> Read:
    """A number with an optional K, M, B (10^9) or T behind it.

    Raises:
        ValueError: no number, or an unknown letter.
    """
    head, given = split(text)
    scale = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
    scale |= {"million": 1e6, "billion": 1e9, "trillion": 1e12}
    if given.lower() not in scale:
        raise ValueError(f"{given!r} is no unit of a count")
    # 8.03 x 10^9 is not a whole number in binary, and counts are.
    return Read(round(number(head) * scale[given.lower()], 3))


def percent(text: str) -> Read:
    """Percent: 80 and `80 %` are 80.

    Raises:
        ValueError: no number.
    """
    value = number(text.strip().removesuffix("%"))
    unclear = "%" not in text and 0 < value < 1
    return Read(value, f"{text} is read as {value:g} %, not {value * 100:g} %" if unclear else "")


def show_size(value: float) -> str:
    """Bytes for people, binary, three significant digits."""
    for unit, power in (("TiB", 4), ("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if abs(value) >= 1024**power:
            return f"{value / 1024**power:.4g} {unit}"
    return f"{value:.0f} B"


def show_duration(seconds: float) -> str:
    """Seconds for people."""
    if not math.isfinite(seconds):
        return "never"
    for unit, length in (("d", 172800), ("h", 5400), ("min", 90)):
        if seconds >= length:
            return f"{seconds / _SECONDS[unit]:.3g} {unit}"
    return f"{seconds:.3g} s"
