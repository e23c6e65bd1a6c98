"""One HTML file that holds everything: text, tables, charts and the library that draws them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import jinja2
from markupsafe import Markup

from gpuferry.audit.choose.decision import Decision
from gpuferry.audit.choose.headroom import first_to_break
from gpuferry.audit.choose.plan import Plan, explain
from gpuferry.audit.read.units import show_duration, show_size
from gpuferry.audit.report import charts
from gpuferry.audit.report.one import values_read
from gpuferry.audit.report.terminal import money

# Every workload's table of GPUs has 64 lines: beyond this a page helps nobody.
EXPLAINED = 400


def page(plan: Plan, title: str) -> str:
    """The report as one self-contained HTML document."""
    from plotly.offline import get_plotlyjs

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gpuferry.audit.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(size=show_size, time=show_duration)
    currency = plan.offers.currency
    environment.filters["money"] = lambda value: money(value, currency)
    shown = plan.decisions[:EXPLAINED]
    details = [explain(decision, plan.fleet) for decision in shown]
    figures: dict[str, Any] = {"overview": charts.overview(plan)}
    for index, decision in enumerate(details):
        if decision.chosen:
            figures[f"memory-{index}"] = charts.memory(decision)
            figures[f"cost-{index}"] = charts.cost(decision, currency)
    figures = {name: text for name, text in figures.items() if text}
    return environment.get_template("page.html.j2").render(
        title=title,
        today=dt.datetime.now(dt.UTC).date(),
        plan=plan,
        details=details,
        left_out=len(plan.decisions) - len(details),
        # `</script>` inside a text would end the element.
        figures={name: Markup(_in_script(text)) for name, text in figures.items()},  # noqa: S704
        plotly=Markup(get_plotlyjs()),  # noqa: S704  (the library itself)
        each={"hour": "an hour", "month": "a month"},
        first_to_break=first_to_break,
        read=values_read,
        cheapest=_has_cheaper,
    )


def _has_cheaper(decision: Decision) -> bool:
    """Whether another candidate of the same standing costs a little less."""
    chosen = decision.chosen
    if chosen is None or chosen.month_cost is None:
        return False
    others = (decision.plotted or decision).others
    return any(
        o.status == chosen.status and o.month_cost is not None and o.month_cost < chosen.month_cost
        for o in others
    )


def _in_script(json_text: str) -> str:
    return json_text.replace("</", "<\\/").replace("<!--", "<\\!--")
