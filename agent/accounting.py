"""How long each GPU was busy, allocated but idle, free, or not seen; and the energy it took.

A pure reducer. Time is CLOCK_BOOTTIME, which neither jumps nor stops in a suspend; the wall clock
is never asked. What nobody saw (a gap, a suspend, the time from a boot to the first observation) is
`unknown`. The time for which a server was off is not counted: it was no server then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

Use = Literal["busy", "allocated_idle", "free", "unknown"]
USES: tuple[Use, ...] = ("busy", "allocated_idle", "free", "unknown")
# A gap of more periods than this was not watched (a sample may be late by one or two).
GAP_PERIODS = 3.0
# No GPU draws more; a larger step of the counter is not energy (IBM/CAST#399: 9.2e18 J).
MOST_WATTS = 3000.0


@dataclass(frozen=True)
class Account:
    """Sums of one GPU. `boot` and `at` are of the last observation, `counter` of the energy."""

    boot: str
    at: float
    elapsed: float = 0.0
    busy: float = 0.0
    allocated_idle: float = 0.0
    free: float = 0.0
    unknown: float = 0.0
    joules: float = 0.0
    counter: float | None = None
    counter_boot: str = ""
    counter_at: float = 0.0
    resets: int = 0


def classify(utilization: float | None, processes: int | None, idle_utilization: float) -> Use:
    """What a GPU was used for during one sample.

    A GPU that tells no utilisation (MIG) is unknown; idle only where the processes are known, too.
    """
    if utilization is None:
        return "unknown"
    if utilization >= idle_utilization:
        return "busy"
    if processes is None:
        return "unknown"
    return "allocated_idle" if processes else "free"


def advance(
    account: Account | None,
    *,
    boot: str,
    at: float,
    use: Use,
    counter: float | None,
    period: float,
) -> Account:
    """The account after one observation.

    `at` is seconds since boot, `counter` joules as the GPU tells them (None: not told), `period`
    the time between two observations. The seconds of an account always add up to `elapsed`.
    """
    if account is None:
        return Account(boot, at, counter=counter, counter_boot=boot, counter_at=at)
    if account.boot != boot:
        moved = replace(account, boot=boot, at=at, elapsed=account.elapsed + at)
        return _energy(replace(moved, unknown=account.unknown + at), counter)
    gap = at - account.at
    if gap <= 0:
        return account
    seen: Use = use if gap <= GAP_PERIODS * period else "unknown"
    moved = replace(account, at=at, elapsed=account.elapsed + gap)
    moved = replace(moved, **{seen: getattr(account, seen) + gap})
    return _energy(moved, counter)


def _energy(account: Account, counter: float | None) -> Account:
    """Add what the counter grew by; after a reset it counts from zero."""
    same = account.counter_boot == account.boot
    if counter is None or (same and counter == account.counter):
        # The same reading again: the next step of the counter is of all the time since the first.
        return account
    seconds = account.at - account.counter_at if same else account.at
    grown = counter - account.counter if account.counter is not None and same else counter
    reset = account.counter is not None and (not same or grown < 0)
    if reset:
        grown = counter
    believed = account.counter is not None and 0 <= grown <= MOST_WATTS * max(seconds, 1.0)
    return replace(
        account,
        joules=account.joules + (grown if believed else 0.0),
        counter=counter,
        counter_boot=account.boot,
        counter_at=account.at,
        resets=account.resets + int(reset or (account.counter is not None and not believed)),
    )


def uses(account: Account) -> dict[Use, float]:
    """Seconds by use; they add up to `elapsed`."""
    return {use: getattr(account, use) for use in USES}


def plain(account: Account) -> dict[str, Any]:
    """For the state file."""
    return asdict(account)


def restored(data: Mapping[str, Any]) -> Account | None:
    """From the state file; None where it is not one of ours."""
    names = {f.name for f in fields(Account)}
    if set(data) != names or not all(isinstance(data[use], int | float) for use in USES):
        return None
    return Account(**data)
