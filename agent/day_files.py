"""Files of the days, one for each: what is uploaded, and what other programs read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.days import Days, spread

VERSION = 1


class DayFiles:
    """A folder of `2026-11-30.json`."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self.trouble = ""

    def load(self, date: str) -> Mapping[str, Any]:
        """GPU to amounts, as written earlier; empty where there is no such day."""
        try:
            told = json.loads((self._folder / f"{date}.json").read_text(encoding="utf-8"))
            return {g["uuid"]: {k: v for k, v in g.items() if k not in ("uuid", "index", "name")}
                    for g in told["gpus"]}  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def texts(self, days: Days, gpus: Mapping[str, tuple[int, str]], wall: float) -> dict[str, str]:
        """Files of the days that changed, by date. `gpus`: UUID to index and name."""
        today = next(spread(wall, 0.0))[0]
        days.tidy()
        found = {}
        for date in sorted(days.changed):
            told = {
                "version": VERSION,
                "date": date,
                "complete": date < today,
                "gpus": [
                    {"uuid": uuid, "index": index, "name": name, **amounts}
                    for uuid, amounts in sorted(days.day(date).items())
                    for index, name in [gpus.get(uuid, (None, ""))]
                ],
            }
            found[date] = json.dumps(told, indent=1) + "\n"
        days.changed.clear()
        return found

    def put(self, texts: Mapping[str, str]) -> set[str]:
        """Write them; the dates that could not be written."""
        self.trouble = ""
        failed = set()
        for date, text in texts.items():
            try:
                self._put(f"{date}.json", text)
            except OSError as error:
                self.trouble = f"{self._folder} cannot be written: {error}"
                failed.add(date)
        return failed

    def write(self, days: Days, gpus: Mapping[str, tuple[int, str]], wall: float) -> None:
        """Both; what could not be written is still changed afterwards."""
        days.changed |= self.put(self.texts(days, gpus, wall))

    def _put(self, name: str, text: str) -> None:
        draft = self._folder / f".{name}.draft"
        with draft.open("w", encoding="utf-8") as handle:
            # Others read it: the unit's own umask is for the token.
            os.fchmod(handle.fileno(), 0o644)
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        draft.replace(self._folder / name)
