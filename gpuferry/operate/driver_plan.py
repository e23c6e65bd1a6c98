"""plan driver: facts from a server, or from a folder, and what they lead to."""

from __future__ import annotations

from pathlib import Path

from gpuferry.driver import Facts, Plan, Wish, gather, plan_driver, wishes
from gpuferry.driver.plan import unasked
from gpuferry.driver.verdicts import verdict_of
from gpuferry.engine import find
from gpuferry.engine.project import Project
from gpuferry.engine.run import Pulumi
from gpuferry.errors import SpecError
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession
from gpuferry.operate.console import print_json, print_table, say_on_stderr
from gpuferry.operate.servers import select


def show(
    project: Project, name: str, *, facts: Path | None, record: Path | None, as_json: bool
) -> int:
    """Print the plan; returns the exit code: 1 when it is a refusal."""
    if record is not None and (facts is not None or record.exists()):
        why = "there is something already" if record.exists() else "--facts reads, nothing is new"
        raise SpecError(f"--record {record}: {why}. Name a folder that does not exist yet.")
    wish = wishes.of_server(project.spec(), name)
    if facts is not None:
        seen, plan = _offline(facts, wish)
    else:
        (entry,) = select(Pulumi(find.ensure(say_on_stderr), project), [name])
        seen, plan = ask(entry.server, wish, record)
    verdict = verdict_of(plan, name)
    if as_json:
        print_json(
            {
                "ok": plan.refusal is None,
                "server": name,
                "plan": plan.model_dump(mode="json"),
                "verdict": verdict.model_dump(mode="json"),
                "facts": seen.model_dump(mode="json", by_alias=True),
            }
        )
    else:
        shown = [[key, project.on_stack(text)] for key, text in rows(plan, seen, wish)]
        print_table("", ["driver plan", name], shown)
    return 1 if plan.refusal else 0


def _offline(path: Path, wish: Wish) -> tuple[Facts, Plan]:
    facts = gather.from_path(path)
    plan = plan_driver(facts, wish)
    sets: list[list[str]] = []
    while path.is_dir() and (arguments := unasked(plan, sets)):
        sets.append(arguments)
        facts = gather.from_path(path, sets)
        plan = plan_driver(facts, wish)
    return facts, plan


def ask(server: Server, wish: Wish, record: Path | None) -> tuple[Facts, Plan]:
    """Ask the server, and then apt there about exactly the set that was decided."""
    with SshSession([server]) as session:
        say_on_stderr(f"{server.name}: gathering facts")
        facts, recording = gather.from_server(session, server, record=record is not None)
        plan = plan_driver(facts, wish)
        sets: list[list[str]] = []
        while arguments := unasked(plan, sets):
            say_on_stderr(f"{server.name}: asking apt what this set would do")
            sets.append(arguments)
            facts, recording = gather.from_server(session, server, sets, record=record is not None)
            plan = plan_driver(facts, wish)
    if record is not None:
        gather.write_recording(recording, record)
        say_on_stderr(f"recorded in {record}; read it before you pass it on")
    return facts, plan


def rows(plan: Plan, facts: Facts, wish: Wish) -> list[list[str]]:
    """The plan as lines for people."""
    gpus = [f"{g.address} 10de:{g.device}" for g in facts.gpus] or ["none"]
    what = " ".join(str(p) for p in (plan.source, plan.version or plan.branch, plan.flavour) if p)
    lines = [
        ["GPUs", ("simulated: " if facts.simulated else "") + ", ".join(gpus)],
        ["action", plan.action],
    ]
    if plan.refusal:
        lines.append(["refused", plan.refusal.sentence])
        return lines + [["option", option] for option in plan.refusal.options]
    lines += [["driver", what or "none"], *(["because", r] for r in plan.reasons)]
    lines += [["adds", text] for text in plan.adds]
    lines += [["package", f"{p.name} {p.version}".strip()] for p in plan.packages]
    lines += [["removes", name] for name in plan.removes]
    if plan.packages:
        lines.append(["apt was asked", "yes" if plan.simulated_by_apt else "no"])
    lines += [
        ["fabric manager", "yes" if plan.fabric_manager else "no"],
        ["persistence daemon", "yes" if plan.persistence else "no"],
        *_mig(wish),
        ["nouveau", "kept from loading" if plan.nouveau_off else "untouched"],
        ["reboot", "needed" if plan.reboot else "not needed"],
        ["interrupts", ", ".join(plan.disturbs) or "nothing"],
        ["in use by", ", ".join(facts.use.work) or "nobody"],
    ]
    return lines + [["note", note] for note in plan.notes]


def _mig(wish: Wish) -> list[list[str]]:
    parts = (wish.mig or {}).items()
    return [["MIG", f"GPU {index}: {' + '.join(names) or 'whole'}"] for index, names in parts]
