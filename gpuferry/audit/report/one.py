"""Everything about one workload as tables for the terminal."""

from __future__ import annotations

from typing import Any

from gpuferry.audit.choose.decision import WORDS, Decision
from gpuferry.audit.choose.headroom import first_to_break
from gpuferry.audit.read.columns import COLUMNS
from gpuferry.audit.read.units import show_duration, show_size
from gpuferry.audit.read.workload import Workload
from gpuferry.audit.report.terminal import money

Section = tuple[str, list[str], list[list[str]]]


def sections(d: Decision, currency: str) -> list[Section]:
    """(title, columns, rows) of what was read, needed, chosen, rejected, and of every GPU."""
    w, chosen = d.workload, d.chosen
    found: list[Section] = []
    read = [[name, value, said, note] for name, value, said, note in values_read(w)]
    found.append((f"{w.id}: read", ["column", "value", "basis", ""], read))
    need = chosen.need if chosen else d.need
    if need:
        terms = [
            [
                t.name,
                t.formula,
                show_size(t.low),
                show_size(t.mid),
                show_size(t.high),
                t.how,
                t.basis,
            ]
            for t in need.terms
        ]
        terms.append(
            ["sum", "", show_size(need.low), show_size(need.mid), show_size(need.high), "", ""]
        )
        names = ["term", "formula", "low", "likely", "high", "how", "basis"]
        found.append((f"memory of one GPU ({need.layout.said}), {need.basis}", names, terms))
    if chosen:
        found.append(("chosen", ["", ""], _chosen(d, currency)))
    else:
        found.append(("no offer fits", [""], [[d.refused]]))
    if d.notes:
        found.append(("notes", [""], [[note] for note in d.notes]))
    if d.cheaper:
        rows = [[o.name, o.id, why] for o, why in d.cheaper]
        found.append(("cheaper for an hour, and why not", ["machine", "offer", "why"], rows))
    if d.gpus:
        fits = [[g.name, WORDS[g.status], g.why] for g in d.gpus]
        found.append(("every GPU of the catalogue", ["GPU", "", "why"], fits))
    return found


def values_read(w: Workload) -> list[tuple[str, str, str, str]]:
    """(column, value with its unit, basis and date, how it was understood) of a row."""
    return [
        (name, shown(name, known.value), known.said, known.note)
        for name, known in w.values.items()
        if name not in ("basis", "date")
    ]


def shown(name: str, value: Any) -> str:
    """A value with its unit, as it was understood."""
    kind = COLUMNS[name].kind if name in COLUMNS else "size" if "bytes" in name else "number"
    if kind == "size":
        return show_size(value)
    if kind == "duration":
        return show_duration(value)
    if kind == "rate":
        return f"{value * 8 / 1e9:.4g} Gbit/s"
    if kind == "resolution":
        return f"{value[0]} x {value[1]}"
    if kind == "percent":
        return f"{value:g} %"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.10g}" if isinstance(value, int | float) else str(value)


def _chosen(d: Decision, currency: str) -> list[list[str]]:
    chosen = d.chosen
    assert chosen is not None
    wants, how = chosen.host, chosen.host_how(d.workload)
    rows = [
        ["machine", f"{chosen.servers} x ({chosen.offer.name})" if chosen.servers > 1
         else chosen.offer.name],
        ["offer", f"{chosen.offer.id} {chosen.offer.price_note}".strip()],
        ["verdict", chosen.word],
        ["layout", chosen.layout.said],
        ["CPU cores", f"{wants.cores:.0f}: {how['cores']}"],
        ["host memory", f"{show_size(wants.memory)}: {how['memory']}"],
        ["disk", f"{show_size(wants.disk)}: {how['disk']}"],
    ]  # fmt: skip
    if "feed" in how:
        rows.append(["disk speed", f"{show_size(wants.feed)}/s: {how['feed']}"])
    if chosen.seconds:
        quick, mid, slow = map(show_duration, chosen.seconds)
        rows.append(["a run", f"{mid} ({quick} to {slow}); {d.time_how}"])
    if chosen.run_cost is not None:
        rows.append(["costs a run", money(chosen.run_cost, currency)])
    rows += [
        ["costs a month", f"{money(chosen.month_cost, currency)} ({chosen.month_hours:.0f} h)"],
        ["breaks first at +50 %", first_to_break(d.limits)],
        ["over-rented", d.over_rented or "no"],
        *(["can grow", text] for text in d.grow),
    ]
    return rows
