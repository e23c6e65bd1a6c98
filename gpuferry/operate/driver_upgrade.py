"""driver upgrade: move the frozen set of one server on purpose."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from dataclasses import replace

from gpuferry.driver import wishes
from gpuferry.driver.upgrade import Move
from gpuferry.engine.project import Project
from gpuferry.errors import SpecError, StackLocked
from gpuferry.operate.console import print_json, print_table, say_on_stderr
from gpuferry.operate.servers import deployed
from gpuferry.operate.upgrading import Options, Outcome, upgrade_server
from gpuferry.paths import data_dir


def run(project: Project, name: str, options: Options, *, as_json: bool) -> int:
    """Upgrade one server and print how it ended; returns the exit code."""
    spec = project.spec()
    wish = wishes.of_server(spec, name)
    if not any(server.name == name and server.gpu for server in spec.servers):
        raise SpecError(
            f"{name} declares no gpu; only servers with GPUs have a frozen set. Declare its gpu in "
            f"{project.stack_file.name}, then: ./ferry up --stack {project.stack}"
        )
    (entry,) = deployed(project, [name])
    with _alone(project, name):
        outcome = upgrade_server(entry, wish, options, say_on_stderr)
    outcome = replace(outcome, message=project.on_stack(outcome.message))
    if as_json:
        print_json(
            {
                "ok": outcome.exit_code == 0,
                "server": name,
                "result": outcome.result,
                "message": outcome.message,
                "moves": [move.model_dump() for move in outcome.moves],
                "plan": outcome.plan.model_dump(mode="json") if outcome.plan else None,
                "verdicts": [verdict.model_dump() for verdict in outcome.verdicts],
            }
        )
    else:
        _print(name, outcome)
    return outcome.exit_code


@contextlib.contextmanager
def _alone(project: Project, name: str) -> Iterator[None]:
    """Two upgrades of one server at once would undo each other."""
    folder = data_dir() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"upgrade-{project.local_name}-{name}").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackLocked(
                f"{name} is being upgraded by another run on this machine; wait until it ends."
            ) from None
        yield


def _print(name: str, outcome: Outcome) -> None:
    rows = [_row(move) for move in outcome.moves]
    if rows:
        print_table("", ["package", "from", "to"], rows)
    plan = outcome.plan
    if plan is not None and not plan.refusal and plan.packages:
        print(f"reboot: {'needed' if plan.reboot else 'not needed'}")
        print(f"interrupts: {', '.join(plan.disturbs) or 'nothing'}")
    for note in plan.notes if plan else []:
        print(f"note: {note}")
    how = "nothing to do" if outcome.result == "nothing" else outcome.result.replace("_", " ")
    print(f"{name}: {how}: {outcome.message}")


def _row(move: Move) -> list[str]:
    return [move.name, move.old or "(absent)", move.new or "(removed)"]
