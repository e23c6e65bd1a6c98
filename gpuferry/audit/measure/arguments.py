"""What `ferry audit measure` is asked for."""

from __future__ import annotations

from gpuferry.audit.read import units
from gpuferry.errors import SpecError

LONGEST = 31 * 86400


def seconds_of(text: str) -> float:
    """A duration such as 2h.

    Raises:
        SpecError: it is none, or longer than a month.
    """
    try:
        seconds = units.duration(text).value
    except ValueError as error:
        raise SpecError(f"--for {text!r} {error}; accepted: {units.DURATIONS}.") from None
    if not 0 < seconds <= LONGEST:
        raise SpecError(f"--for {text!r}: accepted: more than 0 and at most 31 d.")
    return seconds
