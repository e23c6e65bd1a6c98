"""Which failing checks count against an upgrade: those that it is the cause of. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpuferry.verdict import Verdict

# What an upgrade is there to set: no fault of before excuses these.
_ESSENTIAL = ("nvidia_driver.versions", "nvidia_driver.module_for_kernels", "freeze.")
# What no package is at fault for; `nvidia_driver.answers` fails with any sick GPU.
_HARDWARE = ("gpu.", "nvidia_driver.answers")
# No checks of the server, but of the way to it.
_MEANS = ("checks.", "server.")


def failing(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Those that are no success."""
    return [v for v in verdicts if v.status in ("fail", "refused")]


def baseline(verdicts: Sequence[Verdict]) -> list[str]:
    """Ids of the checks that fail before anything moves, and may fail afterwards."""
    ids = {v.id for v in failing(verdicts)}
    return sorted(i for i in ids if not i.startswith((*_ESSENTIAL, *_MEANS)))


def new_failures(verdicts: Sequence[Verdict], before: Collection[str]) -> list[Verdict]:
    """Failing checks that did not fail before."""
    return [v for v in failing(verdicts) if v.id not in before]


def good(verdicts: Sequence[Verdict], before: Collection[str]) -> bool:
    """Nothing fails anew, and something passed: with nothing measured nobody knows."""
    return any(v.status == "pass" for v in verdicts) and not new_failures(verdicts, before)


def acceptable(verdicts: Sequence[Verdict], before: Collection[str]) -> list[str]:
    """Ids that may fail in a set that is taken as it is: known ones, and the hardware's."""
    hardware = {v.id for v in failing(verdicts) if v.id.startswith(_HARDWARE)}
    return sorted(hardware | set(before))


def told(verdicts: Sequence[Verdict]) -> str:
    """Failing checks for people."""
    said = dict.fromkeys(f"{v.id}: {v.measured}" for v in failing(verdicts))
    return "; ".join(said) or "no check passed"


def remark(verdicts: Sequence[Verdict], before: Collection[str]) -> str:
    """What fails and does not count, as the end of a sentence; empty when nothing does."""
    known = [v for v in failing(verdicts) if v.id in before]
    return f"; not the upgrade's, but failing: {told(known)}" if known else ""
