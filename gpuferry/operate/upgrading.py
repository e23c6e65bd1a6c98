"""The steps of an upgrade on one server: drain, move, reboot, check, freeze; and the way back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gpuferry.checking import run_checks
from gpuferry.converge.play import run_playbook
from gpuferry.converge.proof import probe
from gpuferry.driver import Facts, Wish, gather
from gpuferry.driver.upgrade import Move, UpgradePlan, plan_upgrade
from gpuferry.errors import Interrupted, SpecError, StepFailed
from gpuferry.inventory import Entry
from gpuferry.nodes.session import SshSession
from gpuferry.operate import upgrade_judgement as judgement
from gpuferry.verdict import Verdict

Say = Callable[[str], None]
Result = Literal["planned", "refused", "nothing", "upgraded", "accepted", "rolled_back", "broken"]
# Roles that have nothing to do with what moves.
_OTHERS = ("base", "ssh_hardening", "firewall", "freeze")
_POLL_SECONDS = 2.0


class Marker(BaseModel):
    """What the server remembers of an unfinished upgrade; versions by package, empty for absent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    phase: str
    to: str = ""
    old: dict[str, str] = Field(default_factory=dict)
    new: dict[str, str] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)
    auto: list[str] = Field(default_factory=list)
    reboot: bool = False
    boot_id: str = ""
    since: str = ""
    failing: list[str] = Field(default_factory=list, description="checks that failed before")

    @property
    def moves(self) -> list[Move]:
        """All packages that were to move."""
        return [Move(name=n, old=self.old.get(n, ""), new=v) for n, v in self.new.items()]


@dataclass(frozen=True)
class Seen:
    """What a look at the server found."""

    facts: Facts
    members: dict[str, str]
    frozen: dict[str, str]
    marker: Marker | None


@dataclass(frozen=True)
class Options:
    """What the person asked for."""

    to: str = ""
    accept: bool = False
    rollback: bool = False
    plan_only: bool = False
    disturb: bool = False
    drain_seconds: float = 600


@dataclass(frozen=True)
class Outcome:
    """How it ended; exit code 0 only where the server is as wanted, and frozen."""

    result: Result
    message: str
    moves: list[Move] = field(default_factory=list)
    plan: UpgradePlan | None = None
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """For the command."""
        return 0 if self.result in ("planned", "nothing", "upgraded", "accepted") else 1


class Upgrade:
    """One server and the steps on it."""

    def __init__(self, session: SshSession, entry: Entry, options: Options, say: Say) -> None:
        self._session, self._entry, self._options, self._say = session, entry, options, say
        self._server = entry.server
        self._roles = [r for r in entry.variables["ferry_roles"] if r not in _OTHERS]

    def look(self, simulate: Sequence[Sequence[str]] = (), *, refresh: bool = False) -> Seen:
        """Facts behind the freeze, and what is remembered there.

        Raises:
            StepFailed: the server could not be read, or its package lists not fetched.
        """
        request = {
            "simulate": [list(arguments) for arguments in simulate],
            "families": list(self._entry.variables.get("freeze_families", [])),
            "refresh": refresh,
        }
        answer = gather.ask(self._session, self._server, request, "gpu_upgrade")
        if answer["update"]["state"] != "ok":
            lines = answer["update"]["out"].strip().splitlines()
            errors = [line for line in lines if line.startswith("E:")] or lines[-1:]
            raise StepFailed(
                f"{self._server.name}: the package lists could not be fetched "
                f"({answer['update']['state']}): {' '.join(errors)}. Nothing was changed."
            )
        return Seen(
            Facts.model_validate(answer["facts"]),
            answer["members"],
            answer["frozen"],
            Marker.model_validate(answer["marker"]) if answer["marker"] else None,
        )

    def plan(self, seen: Seen, wish: Wish) -> UpgradePlan:
        """Decide, let apt try exactly that, decide again."""
        plan = plan_upgrade(seen.facts, seen.members, seen.frozen, wish, self._options.to)
        sets: list[list[str]] = []
        # A set that apt cannot install may lead to another one.
        while not plan.simulated and (arguments := [p.argument for p in plan.packages]):
            if arguments in sets:
                break
            self._say("asking apt what this set would do")
            sets.append(arguments)
            seen = self.look(sets)
            plan = plan_upgrade(seen.facts, seen.members, seen.frozen, wish, self._options.to)
        return plan

    def drain(self) -> None:
        """Wait until nobody works with the GPUs.

        Raises:
            StepFailed: somebody still does; nothing was changed.
        """
        started = time.monotonic()
        seconds = self._options.drain_seconds
        told = 0.0
        while users := gather.users(self._session, self._server):
            waited = time.monotonic() - started
            if self._options.disturb:
                self._say(f"interrupting {', '.join(users)}")
                return
            if waited + _POLL_SECONDS > seconds:
                raise StepFailed(
                    f"{self._server.name}: GPUs are in use by {', '.join(users)} after "
                    f"{waited:.0f} s; nothing was changed. Stop it, wait longer (--drain-seconds), "
                    "or interrupt it (--disturb)."
                )
            if not told or waited - told >= 10:
                told = waited or 0.1
                self._say(
                    f"waiting for GPU work to end, {waited:.0f} of {seconds:.0f} s: "
                    f"{', '.join(users)}"
                )
            time.sleep(_POLL_SECONDS)

    def forward(self, marker: Marker, *, begin: bool) -> None:
        """Install the new versions and bring them into force."""
        self._move(marker.new, {}, marker, begin=begin, phase="installing")

    def back(self, marker: Marker) -> list[str]:
        """Install the old versions; return what is not as it was."""
        self._say("rolling back to the recorded versions")
        self._move(marker.old, marker.files, marker, begin=False, phase="rolling back")
        have = {n: p.version for n, p in self.look().facts.packages.items()}
        return [
            f"{name} is {have.get(name, 'absent')}, it was {version or 'absent'}"
            for name, version in marker.old.items()
            if have.get(name, "") != version
        ]

    def _move(
        self, to: dict[str, str], files: dict[str, str], marker: Marker, *, begin: bool, phase: str
    ) -> None:
        gone = [name for name, version in to.items() if not version]
        self._play(
            "upgrade.yml",
            upgrade_begin=begin,
            upgrade_moves=marker.new,
            upgrade_to=marker.to,
            upgrade_phase=phase,
            upgrade_disturb=self._options.disturb,
            upgrade_packages=[f"{name}={version}" for name, version in to.items() if version],
            upgrade_files=files,
            upgrade_absent=gone,
            upgrade_removes=gone,
            upgrade_reboot=marker.reboot,
            upgrade_failing=marker.failing,
            ferry_disturb=True,
        )

    def _play(self, playbook: str, **variables: Any) -> None:
        own = {**self._entry.variables, "ferry_roles": self._roles, **variables}
        run_playbook(
            playbook,
            [self._server],
            {self._server.name: own},
            self._session,
            # A reboot ends the connection that the accelerator keeps.
            accelerated=not variables.get("upgrade_reboot"),
            say=self._say,
        )

    def check(self, roles: list[str] | None = None) -> list[Verdict]:
        """Judge what moved; the checks of other roles are another matter."""
        self._say("checking")
        chosen = self._roles if roles is None else roles
        expected = {**self._entry.expectations, "roles": chosen}
        return run_checks(
            [self._server],
            {self._server.name: expected},
            on_verdict=lambda v: self._say(f"{v.status}: {v.id}: {v.measured}"),
        )

    def failing_before(self) -> list[str]:
        """What fails already is not the upgrade's doing: a sick GPU would undo any."""
        self._say("before anything moves")
        return judgement.baseline(self.check())

    def freeze(self) -> list[Verdict]:
        """Take what is installed as the frozen set, forget the upgrade, and see that it holds."""
        self._play("upgrade_end.yml")
        known = self._entry.variables["ferry_roles"]
        played = [role for role in [*self._roles, "freeze"] if role in known]
        probe(self._session, self._server, played, self._entry.variables, "record")
        return self.check(["freeze"])


def upgrade_server(entry: Entry, wish: Wish, options: Options, say: Say) -> Outcome:
    """Upgrade, accept, finish or undo; see :class:`Options`.

    Raises:
        StepFailed: nothing was changed, since the server could not be read or is at work.
        SpecError: the options do not fit what is on the server.
        Interrupted: stopped in the middle; the server remembers.
    """
    name = entry.server.name

    def tell(text: str) -> None:
        say(f"{name}: {text}")

    if "disturb" in wish.allow and not options.disturb:
        options = Options(**{**vars(options), "disturb": True})
    with SshSession([entry.server]) as session:
        work = Upgrade(session, entry, options, tell)
        tell("fetching package lists, gathering facts")
        seen = work.look(refresh=not options.rollback)
        _refuse_what_does_not_fit(name, seen, options)
        try:
            if options.accept:
                return _accepted(work, seen, options)
            if seen.marker is not None:
                return _unfinished(work, seen.marker, options)
            return _fresh(work, seen, wish, options)
        except KeyboardInterrupt:
            raise Interrupted(
                f"{name}: interrupted. If packages had begun to move, the server remembers: finish "
                f"with ./ferry driver upgrade {name}, or undo with --rollback."
            ) from None


def _refuse_what_does_not_fit(name: str, seen: Seen, options: Options) -> None:
    if options.rollback and seen.marker is None:
        raise SpecError(f"{name}: there is no unfinished upgrade to roll back.")
    if seen.marker and options.to not in ("", seen.marker.to):
        raise SpecError(
            f"{name}: an upgrade to {seen.marker.to or 'the newest versions'} is unfinished since "
            f"{seen.marker.since}. Finish it without --to, or undo it with --rollback."
        )


def _accepted(work: Upgrade, seen: Seen, options: Options) -> Outcome:
    moves = [
        Move(name=n, old=seen.frozen.get(n, ""), new=seen.members.get(n, ""))
        for n in sorted({*seen.frozen, *seen.members})
        if seen.frozen.get(n) != seen.members.get(n)
    ]
    if options.plan_only:
        what = "this would be frozen once its checks pass" if moves else "all is as frozen"
        return Outcome("planned", f"{what}; nothing was changed", moves)
    verdicts = work.check()
    known = judgement.acceptable(verdicts, seen.marker.failing if seen.marker else [])
    if not judgement.good(verdicts, known):
        new = judgement.told(judgement.new_failures(verdicts, known))
        return Outcome("refused", f"not accepted, checks fail: {new}", verdicts=verdicts)
    verdicts += work.freeze()
    return _judged("accepted", "what is installed is the frozen set now", moves, verdicts, known)


def _unfinished(work: Upgrade, marker: Marker, options: Options) -> Outcome:
    backward = options.rollback or marker.phase == "rolling back"
    if options.plan_only:
        what = "is being rolled back" if backward else "is unfinished"
        return Outcome("planned", f"an upgrade since {marker.since} {what}", marker.moves)
    work.drain()
    if backward:
        return _roll_back(work, marker, "it was asked for")
    return _go(work, marker, begin=False)


def _fresh(work: Upgrade, seen: Seen, wish: Wish, options: Options) -> Outcome:
    plan = work.plan(seen, wish)
    if plan.refusal:
        text = f"{plan.refusal.sentence}. What can be done: {'; or: '.join(plan.refusal.options)}"
        return Outcome("refused", text, plan.moves, plan)
    if not plan.packages:
        return Outcome("nothing", _standing(seen), plan=plan)
    if options.plan_only:
        return Outcome("planned", "nothing was changed", plan.moves, plan)
    # Before the drain: from there on little time shall pass in which work could start again.
    failing = work.failing_before()
    work.drain()
    marker = Marker(
        phase="installing",
        to=options.to,
        new={move.name: move.new for move in plan.moves},
        reboot=plan.reboot,
        failing=failing,
    )
    return _go(work, marker, begin=True)


def _standing(seen: Seen) -> str:
    if seen.frozen == seen.members:
        return f"all {len(seen.members)} members are frozen at the newest version"
    return "no newer version, but the set is not as frozen; take it as it is with --accept"


def _go(work: Upgrade, marker: Marker, *, begin: bool) -> Outcome:
    """Forward; back again when that fails."""
    try:
        work.forward(marker, begin=begin)
    except StepFailed as failure:
        found = work.look().marker
        if found is None:
            raise
        return _roll_back(work, found, str(failure))
    verdicts = work.check()
    if not judgement.good(verdicts, marker.failing):
        found = work.look().marker
        assert found is not None  # only the freeze removes it
        new = judgement.told(judgement.new_failures(verdicts, marker.failing))
        return _roll_back(work, found, f"checks fail: {new}", verdicts)
    verdicts += work.freeze()
    message = "upgraded, checked and frozen"
    return _judged("upgraded", message, marker.moves, verdicts, marker.failing)


def _roll_back(work: Upgrade, marker: Marker, why: str, before: Sequence[Verdict] = ()) -> Outcome:
    try:
        different = work.back(marker)
    except StepFailed as failure:
        different = [str(failure)]
    if different:
        return Outcome(
            "broken",
            f"{why}. THE OLD STATE IS NOT BACK: {'; '.join(different[:6])}. The server still "
            f"remembers ({marker.since}): mend what is named, then repeat with --rollback",
            marker.moves,
            verdicts=list(before),
        )
    verdicts = work.check()
    state = judgement.remark(verdicts, marker.failing)
    if not judgement.good(verdicts, marker.failing):
        new = judgement.new_failures(verdicts, marker.failing)
        state = f"; checks fail: {judgement.told(new)}{state}"
    verdicts += work.freeze()
    return Outcome(
        "rolled_back",
        f"{why}. The old versions are back and frozen{state}",
        marker.moves,
        verdicts=[*before, *verdicts],
    )


def _judged(
    result: Result,
    message: str,
    moves: list[Move],
    verdicts: list[Verdict],
    known: Sequence[str],
) -> Outcome:
    if new := judgement.new_failures(verdicts, known):
        message, result = f"{message}, but: {judgement.told(new)}", "broken"
    message += judgement.remark(verdicts, known)
    return Outcome(result, message, moves, verdicts=verdicts)
