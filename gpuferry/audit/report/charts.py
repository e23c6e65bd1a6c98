"""Charts of one workload: need against memory, cost against time. Plotly figures as JSON."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from gpuferry.audit.choose.decision import FITS, MOST, TIGHT, WORDS, Candidate, Decision
from gpuferry.audit.choose.plan import Plan
from gpuferry.audit.read.units import GIB

COLORS = {FITS: "#2a7f62", TIGHT: "#c98a1b", 0: "#b5bcc4"}
# Hours on a logarithmic axis; plotly's own labels between powers of ten leave out the power.
_TICKS = [m * 10**e for e in range(-3, 5) for m in (1, 2, 5)]
_FONT = {"family": "system-ui, sans-serif", "size": 13, "color": "#1d2733"}


def _layout(**more: Any) -> dict[str, Any]:
    return {
        "font": _FONT, "paper_bgcolor": "#fff", "plot_bgcolor": "#fff", "bargap": 0.35,
        "margin": {"l": 10, "r": 20, "t": 40, "b": 85},
        # At the lower edge, however high the chart is: below the plot it would meet the axis.
        "legend": {"orientation": "h", "yref": "container", "y": 0.01, "yanchor": "bottom"},
        **more,
    }  # fmt: skip


def memory(d: Decision) -> str:
    """What one GPU needs (a band) against what candidates have (bars)."""
    shown = _one_each([d.chosen, *(d.plotted.others if d.plotted else d.others)])
    figure = go.Figure()
    for status in (FITS, TIGHT):
        some = [c for c in shown if c.status == status]
        if not some:
            continue
        figure.add_bar(
            y=[_label(c) for c in some], x=[c.offer.visible_bytes / GIB for c in some],
            orientation="h", name=f"memory of one GPU ({WORDS[status]})",
            marker={"color": COLORS[status]},
            hovertemplate="%{y}: %{x:.4g} GiB<extra></extra>",
        )  # fmt: skip
        figure.add_scatter(
            y=[_label(c) for c in some], x=[c.need.mid / GIB for c in some], mode="markers",
            name="needed" if status == FITS else "needed (tight)",
            marker={"color": "#12344d", "symbol": "diamond", "size": 9},
            error_x={
                "type": "data", "symmetric": False, "color": "#12344d",
                "array": [(c.need.high - c.need.mid) / GIB for c in some],
                "arrayminus": [(c.need.mid - c.need.low) / GIB for c in some],
            },
            hovertemplate="%{y} needs %{x:.4g} GiB<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        **_layout(
            title={"text": "Memory of one GPU: needed (range) and there", "font": {"size": 14}},
            xaxis={"title": f"GiB (at most {MOST:.0%} may be needed)", "rangemode": "tozero",
                   "gridcolor": "#e6eaee"},
            yaxis={"automargin": True, "autorange": "reversed", "ticksuffix": "  "},
            height=185 + 28 * len(shown), barmode="overlay",
        )
    )  # fmt: skip
    return str(figure.to_json())


def cost(d: Decision, currency: str) -> str:
    """What a run or a month costs against how long a run takes, with the deadline."""
    found = [d.chosen, *(d.plotted.others if d.plotted else d.others)]
    timed = [c for c in found if c and c.seconds and c.month_cost is not None]
    if len(timed) < 2:
        return ""
    per_run = all(c.run_cost is not None for c in timed)
    figure = go.Figure()
    for status in (FITS, TIGHT):
        some = [c for c in timed if c.status == status]
        if not some:
            continue
        hours = [c.seconds[1] / 3600 for c in some if c.seconds]
        figure.add_scatter(
            x=hours, y=[c.run_cost if per_run else c.month_cost for c in some], mode="markers",
            name=WORDS[status], marker={"color": COLORS[status], "size": 9},
            text=[f"{c.offer.name} ({c.offer.id})" for c in some],
            error_x={
                "type": "data", "symmetric": False, "thickness": 1, "color": "#c9d1d9",
                "array": [(c.seconds[2] - c.seconds[1]) / 3600 for c in some if c.seconds],
                "arrayminus": [(c.seconds[1] - c.seconds[0]) / 3600 for c in some if c.seconds],
            },
            hovertemplate="%{text}<br>%{x:.3g} h, %{y:.4g}<extra></extra>",
        )  # fmt: skip
    chosen = d.chosen
    if chosen and chosen.seconds:
        money = chosen.run_cost if per_run else chosen.month_cost
        figure.add_scatter(
            x=[chosen.seconds[1] / 3600], y=[money], mode="markers+text", name="chosen",
            text=[chosen.offer.name], textposition="top center", cliponaxis=False,
            marker={"symbol": "circle-open", "size": 17, "color": "#12344d", "line": {"width": 2}},
            hoverinfo="skip",
        )  # fmt: skip
    deadline = d.workload.number("deadline") / 3600
    if deadline:
        top = max((c.run_cost if per_run else c.month_cost) or 0 for c in timed) * 1.1
        figure.add_scatter(
            x=[deadline, deadline], y=[0, top], mode="lines", name=f"deadline {deadline:.3g} h",
            line={"color": "#b3261e", "dash": "dash"}, hoverinfo="name",
        )  # fmt: skip
    what = "a run" if per_run else "a month"
    figure.update_layout(
        **_layout(
            title={"text": f"Cost of {what} against the time of a run", "font": {"size": 14}},
            xaxis={"title": "hours of a run, with its range", "type": "log",
                   "tickvals": _TICKS, "ticktext": [f"{t:g}" for t in _TICKS],
                   "gridcolor": "#e6eaee"},
            yaxis={"title": f"{currency} for {what}", "rangemode": "tozero",
                   "gridcolor": "#e6eaee", "automargin": True},
            height=410,
        )
    )  # fmt: skip
    return str(figure.to_json())


def overview(plan: Plan) -> str:
    """What each server costs in a month."""
    priced = [s for s in plan.servers if s.month_cost is not None][:60]
    if not priced:
        return ""
    figure = go.Figure()
    figure.add_bar(
        x=[s.month_cost for s in priced], y=[f"{s.name}  {s.offer.name}" for s in priced],
        orientation="h", marker={"color": "#2b5d8a"},
        text=[f"{s.month_cost:,.0f}" for s in priced], textposition="auto",
        hovertext=[", ".join(d.workload.id for d in s.workloads[:12]) for s in priced],
        hovertemplate="%{y}: %{x:,.2f}<br>%{hovertext}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        **_layout(
            title={"text": "Servers: cost of a month", "font": {"size": 14}},
            xaxis={"title": plan.offers.currency, "gridcolor": "#e6eaee"},
            yaxis={"automargin": True, "autorange": "reversed", "ticksuffix": "  "},
            height=130 + 30 * len(priced),
            margin={"l": 10, "r": 20, "t": 40, "b": 45},
        )
    )
    return str(figure.to_json())


def _one_each(found: list[Candidate | None]) -> list[Candidate]:
    """The first candidate of every GPU and number, at most 14."""
    seen: dict[str, Candidate] = {}
    for candidate in found:
        if candidate:
            seen.setdefault(_label(candidate), candidate)
    return list(seen.values())[:14]


def _label(c: Candidate) -> str:
    return c.offer.name if c.servers == 1 else f"{c.servers} x ({c.offer.name})"
