"""A plan in the terminal: one line for each workload, then the servers."""

from __future__ import annotations

from gpuferry.audit.choose.decision import Decision
from gpuferry.audit.choose.headroom import first_to_break
from gpuferry.audit.choose.plan import Plan
from gpuferry.audit.read.units import show_duration, show_size

COLUMNS = [
    "workload",
    "needs on one GPU",
    "chosen",
    "",
    "a run",
    "a month",
    "first to break at +50 %",
]
SERVER_COLUMNS = ["server", "machine", "offer", "workloads", "hours", "a month", ""]


def money(value: float | None, currency: str) -> str:
    """An amount, or that there is none."""
    if value is None:
        return "no price"
    return f"{value:,.2f} {currency}" if value < 100 else f"{value:,.0f} {currency}"


def rows(plan: Plan) -> list[list[str]]:
    """One row for each workload."""
    return [_row(d, plan.offers.currency) for d in plan.decisions]


def _row(d: Decision, currency: str) -> list[str]:
    chosen = d.chosen
    of_one = chosen.need if chosen else d.need  # of the layout that is to be rented
    need = f"{of_one.said}, {of_one.basis}" if of_one else "unknown"
    if chosen is None:
        return [d.workload.id, need, "none", "no offer fits", "", "", d.refused]
    machine = (
        chosen.offer.name if chosen.servers == 1 else f"{chosen.servers} x ({chosen.offer.name})"
    )
    layout = f", {chosen.layout.said}" if chosen.layout.gpus > 1 else ""
    run = [show_duration(chosen.seconds[1])] if chosen.seconds else []
    if chosen.run_cost is not None:
        run.append(money(chosen.run_cost, currency))
    if not run and d.workload.kind != "infer":
        run = ["not known"]
    cost = money(chosen.month_cost, currency)
    first = first_to_break(d.limits)
    return [d.workload.id, need, machine + layout, chosen.word, ", ".join(run), cost, first]


def server_rows(plan: Plan) -> list[list[str]]:
    """One row for each server to rent."""
    currency = plan.offers.currency
    found = []
    for server in plan.servers:
        names = [d.workload.id for d in server.workloads]
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        beside = (
            f"{server.cores:.0f} cores, {show_size(server.memory)}, disk {show_size(server.disk)}"
        )
        name = server.offer.name if server.count == 1 else f"{server.count} x ({server.offer.name})"
        found.append([
            server.name, f"{name}; {beside}", server.offer.id, shown, f"{server.hours:.0f}",
            money(server.month_cost, currency), server.advice,
        ])  # fmt: skip
    return found


def remarks(plan: Plan) -> list[str]:
    """Notes of the plan, and of workloads."""
    lines = list(plan.notes)
    if plan.servers and plan.month_cost is not None:
        lines.insert(0, f"all servers: {money(plan.month_cost, plan.offers.currency)} a month")
    for d in plan.decisions:
        lines += [f"{d.workload.id}: {note}" for note in d.notes]
        if d.over_rented:
            lines.append(f"{d.workload.id}: over-rented: {d.over_rented}")
    return lines
