"""What the worked examples of docs/audit.md come to: `python3 -m tests.bench.audit_examples`."""

from __future__ import annotations

import sys

from gpuferry.audit.choose.decision import Decision
from gpuferry.audit.choose.headroom import first_to_break
from gpuferry.audit.choose.plan import Plan, make_plan
from gpuferry.audit.offers.load import load_offers
from gpuferry.audit.read.inventory import read_inventory
from gpuferry.audit.read.units import show_duration, show_size
from gpuferry.audit.report.terminal import money
from gpuferry.paths import REPOSITORY

FOLDER = REPOSITORY / "docs/examples/audit"
EXAMPLES = ("llm-finetune", "diffusion", "cnn", "blender-farm", "cfd-md")


def plan(name: str) -> Plan:
    """The plan of an example."""
    offers = load_offers(FOLDER / "offers.yaml")
    return make_plan(read_inventory(FOLDER / f"{name}.yaml"), offers)


def block(name: str) -> str:
    """Its outcome in a few lines, as the page shows it."""
    found = plan(name)
    lines = [_line(d, found.offers.currency) for d in found.decisions]
    for server in found.servers:
        names = ", ".join(d.workload.id for d in server.workloads)
        cost = money(server.month_cost, found.offers.currency)
        beside = (
            f"{server.cores:.0f} cores, {show_size(server.memory)}, {show_size(server.disk)} disk"
        )
        lines.append(f"{server.name}: {server.offer.name} ({server.offer.id}) for {names}")
        lines.append(f"  at least {beside}; {server.hours:.0f} h, {cost} a month")
    return "\n".join(lines)


def _line(d: Decision, currency: str) -> str:
    chosen = d.chosen
    if chosen is None:
        return f"{d.workload.id}: no offer fits; {d.refused}"
    text = f"{d.workload.id}: {chosen.offer.name}, {chosen.word}"
    text += f"\n  needs {chosen.need.said}, {chosen.need.basis}; {chosen.layout.said}"
    if chosen.seconds:
        text += f"\n  a run takes {show_duration(chosen.seconds[1])}"
        if chosen.run_cost is not None:
            text += f" and costs {money(chosen.run_cost, currency)}"
    return f"{text}\n  first to break at +50 %: {first_to_break(d.limits)}"


if __name__ == "__main__":
    for example in EXAMPLES:
        sys.stdout.write(f"{example}\n{block(example)}\n\n")
