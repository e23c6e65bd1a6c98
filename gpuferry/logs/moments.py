"""Moments as people write them. Pure."""

from __future__ import annotations

import datetime
import re

from gpuferry.errors import SpecError

_AGO = re.compile(r"(\d+)(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def moment(text: str, option: str, now: datetime.datetime) -> int:
    """Microseconds since 1970 of `2h` (ago), a date or a date with time; UTC where no zone is told.

    Raises:
        SpecError: names the option and what it takes.
    """
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago:
            moment = now - datetime.timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]])
        else:
            moment = datetime.datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        moment = moment.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise SpecError(
            f"{option}: {text!r} is no moment; accepted: 30m, 2h, 3d (ago), 2026-11-30, "
            "2026-11-30T21:57:00 (UTC)."
        ) from None
    return max(0, int(moment.timestamp() * 1e6))


def written(microseconds: int) -> str:
    """A moment for people and programs, in UTC."""
    moment = datetime.datetime.fromtimestamp(microseconds // 1_000_000, datetime.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{microseconds % 1_000_000:06d}Z"
