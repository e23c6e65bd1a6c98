"""`ferry sim NAME set`: readings as a person writes them; pure."""

from __future__ import annotations

import difflib
import math

from pydantic import ValidationError

from gpuferry.errors import SpecError
from gpuferry.simulation.moment import Moment, changed, keep_energy
from gpuferry.simulation.readings import READINGS, Reading, settable
from gpuferry.simulation.scenario import Scenario, Series, Value

ABSENT, DEFAULT = "absent", "default"
_FORM = "NAME=VALUE, NAME=0:30,10:95[,loop][,linear], NAME=absent or NAME=default"


def assign(scenario: Scenario, gpus: list[int], assignments: list[str], moment: Moment) -> Scenario:
    """The scenario with readings set on some GPUs.

    Raises:
        SpecError: an unknown reading, or a value it cannot have.
    """
    parsed = [_parse(text, moment) for text in assignments]
    if not parsed:
        raise SpecError(f"Nothing to set; accepted: {_FORM}. Names: {', '.join(settable())}.")
    scenario = keep_energy(scenario, moment)
    for index in gpus:
        gpu = scenario.gpu(index)
        readings, absent = dict(gpu.readings), set(gpu.absent)
        for name, value in parsed:
            readings.pop(name, None)
            absent.discard(name)
            if value == ABSENT:
                absent.add(name)
            elif not isinstance(value, str):
                readings[name] = value
        scenario = scenario.with_gpu(index, changed(gpu, readings=readings, absent=sorted(absent)))
    return scenario


def forgotten(gpus: list[int], assignments: list[str]) -> list[str]:
    """Settings made on the server that the assignments replace."""
    names = [text.partition("=")[0] for text in assignments]
    return [f"{index}.{name}" for index in gpus for name in names]


def _parse(text: str, moment: Moment) -> tuple[str, Value | str]:
    name, equals, words = text.partition("=")
    if not equals or not name or not words:
        raise SpecError(f"{text!r} is no assignment; accepted: {_FORM}.")
    if name not in settable():
        near = difflib.get_close_matches(name, settable(), n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Names: {', '.join(settable())}."
        raise SpecError(f"{name!r} is no reading that can be set. {hint}")
    if words in (ABSENT, DEFAULT):
        return name, words
    if ":" in words:
        return name, _series(name, words, moment)
    return name, _number(name, words, READINGS[name])


def _number(name: str, text: str, reading: Reading) -> float:
    try:
        value = float(int(text, 16)) if text.lower().startswith("0x") else float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= reading.most:
        raise SpecError(
            f"{name}={text}: accepted: a number from 0 to {reading.most:.0f} ({reading.unit}), "
            f"a series, {ABSENT} or {DEFAULT}."
        )
    return value


def _series(name: str, text: str, moment: Moment) -> Series:
    points, words = [], []
    for part in text.split(","):
        time, colon, value = part.partition(":")
        if not colon:
            words.append(part)
            continue
        try:
            points.append((float(time), _number(name, value, READINGS[name])))
        except ValueError:
            raise SpecError(f"{name}={text}: {time!r} is no number of seconds.") from None
    unknown = set(words) - {"loop", "hold", "linear", "step"}
    if unknown:
        raise SpecError(
            f"{name}={text}: {sorted(unknown)[0]!r} is unknown; accepted behind the points: "
            "loop, hold, linear, step."
        )
    try:
        return Series(
            points=points,
            end="loop" if "loop" in words else "hold",
            shape="linear" if "linear" in words else "step",
            since_ms=moment.now_ms,
        )
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise SpecError(f"{name}={text}: {reason}.") from None
