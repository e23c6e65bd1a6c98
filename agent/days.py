"""The accounts by UTC day: how long each GPU was used for what, energy, peak memory, Xids.

A pure reducer. How much is from the accounts, whose clock neither jumps nor stops; only which day
it belongs to is asked of the wall clock. So the days always add up to the account, also when
somebody sets the clock.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent.accounting import USES, Account

# So many days are held; older ones are read again when the clock goes back to them.
KEPT_DAYS = 8
_DAY_SECONDS = 86400.0
_AMOUNTS = (*(f"{use}_seconds" for use in USES), "energy_joules")
_UTC = datetime.timezone.utc  # noqa: UP017 - servers may have Python 3.10


def spread(wall: float, seconds: float) -> Iterator[tuple[str, float]]:
    """Days and seconds of an interval that ends at `wall` (since 1970), the newest day first."""
    while True:
        moment = datetime.datetime.fromtimestamp(max(0.0, wall), _UTC)
        own = min(seconds, wall % _DAY_SECONDS) if wall > 0 else seconds
        yield moment.date().isoformat(), own
        seconds -= own
        if seconds <= 0:
            return
        # The last moment of the day before.
        wall = wall - wall % _DAY_SECONDS - 1e-3


class Days:
    """What belongs to which day. `load` gives a day that is not held, as `day` gave it."""

    def __init__(self, kept: Mapping[str, Any], load: Callable[[str], Mapping[str, Any]]) -> None:
        self._load = load
        self._days: dict[str, dict[str, Any]] = dict(kept.get("days", {}))
        # What was attributed already: amounts by GPU, and counts of Xids.
        self._base: dict[str, dict[str, float]] = dict(kept.get("base", {}))
        self._xids: dict[str, int] | None = kept.get("xids")
        self.changed: set[str] = set()

    def account(self, accounts: Mapping[str, Account], wall: float) -> None:
        """Attribute what the accounts grew by since the last call; at the first call nothing."""
        for uuid, account in accounts.items():
            now = _amounts(account)
            before = self._base.get(uuid, now)
            self._base[uuid] = now
            grown = {name: now[name] - before[name] for name in _AMOUNTS}
            seconds = sum(grown[f"{use}_seconds"] for use in USES)
            if min(grown.values()) < 0 or not any(grown.values()):
                continue
            for date, part in spread(wall, seconds):
                share = part / seconds if seconds else 1.0
                day = self._gpu(date, uuid)
                for name in _AMOUNTS:
                    day[name] += grown[name] * share

    def memory(self, uuid: str, used_bytes: float | None, wall: float) -> None:
        """Note how much memory is in use; None: not told."""
        if used_bytes is None:
            return
        day = self._gpu(next(spread(wall, 0.0))[0], uuid)
        day["peak_memory_bytes"] = max(day["peak_memory_bytes"] or 0.0, used_bytes)

    def xids(self, counts: Mapping[str, int], uuids: Mapping[str, str], wall: float) -> None:
        """Note faults. `counts` is by "PCI-ADDRESS CODE", `uuids` by PCI address."""
        if self._xids is not None:
            for key, count in counts.items():
                pci, _, code = key.rpartition(" ")
                new = count - self._xids.get(key, 0)
                if new > 0 and pci in uuids:
                    told = self._gpu(next(spread(wall, 0.0))[0], uuids[pci])["xids"]
                    told[code] = told.get(code, 0) + new
        self._xids = dict(counts)

    def _gpu(self, date: str, uuid: str) -> dict[str, Any]:
        if date not in self._days:
            self._days[date] = dict(self._load(date))
        self.changed.add(date)
        empty: dict[str, Any] = {
            **dict.fromkeys(_AMOUNTS, 0.0), "peak_memory_bytes": None, "xids": {},
        }  # fmt: skip
        return dict.setdefault(self._days[date], uuid, empty)

    def day(self, date: str) -> dict[str, Any]:
        """GPU to amounts, of a day that is held."""
        return self._days[date]

    def tidy(self) -> None:
        """Let go of all but the newest days; those that changed have been written by then."""
        for date in sorted(self._days)[:-KEPT_DAYS]:
            if date not in self.changed:
                del self._days[date]

    def plain(self) -> dict[str, Any]:
        """For the state file."""
        return {"days": self._days, "base": self._base, "xids": self._xids}


def _amounts(account: Account) -> dict[str, float]:
    seconds = {f"{use}_seconds": getattr(account, use) for use in USES}
    return {**seconds, "energy_joules": account.joules}
