"""The formulas against published peaks: `python3 -m tests.bench.audit_accuracy` prints the page."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuferry.audit.choose.decision import FITS
from gpuferry.audit.choose.gpus import memory
from gpuferry.audit.estimate.need import estimate
from gpuferry.audit.estimate.terms import Estimate, Layout, Term
from gpuferry.audit.read import units
from gpuferry.audit.read.inventory import workloads_of
from gpuferry.audit.read.tables import Raw, Table, load_yaml
from gpuferry.paths import REPOSITORY

FILE = REPOSITORY / "docs/examples/audit/published.yaml"
PAGE = REPOSITORY / "docs/audit-accuracy.md"
# Terms that a meter does not count.
LEFT_OUT = {
    "allocated": {"context", "fragmentation", "denoiser's blocks"},
    "reserved": {"context"},
    "nvml": set(),
}
MEDIAN, UNDER = 0.15, -0.10


@dataclass(frozen=True)
class Comparison:
    """One published figure and ours for the same meter, in bytes."""

    name: str
    what: str
    source: str
    meter: str
    tuned: bool
    published: float
    low: float
    mid: float
    high: float
    need: Estimate

    @property
    def error(self) -> float:
        """Ours over the published one, less 1."""
        return self.mid / self.published - 1

    @property
    def called_fit(self) -> bool:
        """Whether a GPU with just less memory than the published peak would be called fitting."""
        return memory(self.need, 0.999 * self.published)[0] == FITS


def comparisons() -> list[Comparison]:
    """All cases of the file."""
    data: dict[str, Any] = load_yaml(FILE)
    return [_compare(case, data) for case in data["cases"]]


def _compare(case: dict[str, Any], data: dict[str, Any]) -> Comparison:
    cells = {
        "id": case["shape"],
        **data["settings"][case["setting"]],
        **data["shapes"][case["shape"]],
    }
    cells |= case["with"]
    (w,) = workloads_of(Table("published", [Raw(case["shape"], 1, cells)]), Path())
    gpus = case.get("gpus", 1)
    need = estimate(w, Layout(gpus, zero=int(w.number("zero"))))
    assert need is not None
    meter = case.get("meter", "allocated")
    terms: list[Term] = [t for t in need.terms if t.name not in LEFT_OUT[meter]]
    what = {**data["settings"][case["setting"]], **case["with"]}
    keys = (
        "kind",
        "method",
        "weights_precision",
        "precision",
        "batch",
        "seq",
        "context",
        "recompute",
    )
    text = ", ".join(f"{what[key]}" if key in ("kind", "method") else f"{key} {what[key]}"
                     for key in keys if key in what)  # fmt: skip
    return Comparison(
        name=case["shape"],
        what=text + (f", {gpus} GPUs" if gpus > 1 else ""),
        source=case["source"],
        meter=meter,
        tuned=bool(case.get("tuned")),
        published=units.size(case["peak"]).value,
        low=sum(t.low for t in terms),
        mid=sum(t.mid for t in terms),
        high=sum(t.high for t in terms),
        need=need,
    )


def page() -> str:
    """The page with every figure."""
    found = comparisons()
    fresh = [c for c in found if not c.tuned]
    models = {c.name.removesuffix("-quantised") for c in fresh}
    errors = [abs(c.error) for c in fresh]
    under = [c for c in fresh if c.error < UNDER]
    wrong = [c for c in found if c.called_fit]
    head = _HEAD.format(
        fresh=len(fresh), models=len(models), median=statistics.median(errors), aim=MEDIAN,
        largest=max(errors), under=len(under), least=-UNDER, wrong=len(wrong), all=len(found),
    )  # fmt: skip
    sources = [f"- {name}: {text}" for name, text in load_yaml(FILE)["sources"].items()]
    return "\n".join([head, *map(_line, found), _TAIL, *sources, ""])


def _line(c: Comparison) -> str:
    published, mid, low, high = (f"{v / 2**30:.2f}" for v in (c.published, c.mid, c.low, c.high))
    error = f"{c.error:+.1%}" + (" tuned" if c.tuned else "")
    error += " **under**" if c.error < UNDER else ""
    cells = (c.name, c.what, c.meter, published, mid, f"{low} to {high}", error, c.source)
    return f"| {' | '.join(cells)} |"


_HEAD = """\
# How good the memory estimates are

Made by `python3 -m tests.bench.audit_accuracy` from `docs/examples/audit/published.yaml`; a test
compares. Peaks that others measured and published, against the formulas' likely value and range,
without what the publisher's meter does not count. Nothing here was measured by gpuferry itself.

**{fresh} figures of {models} public models: median error {median:.1%} (aim <= {aim:.0%}), largest \
{largest:.1%}; {under} are under by more than {least:.0%}.** {wrong} of all {all} would be called \
fitting on a GPU with just less memory than the published peak: they are tight or refused there.

| model | what | meter | published | estimate | range | error | source |
|---|---|---|---|---|---|---|---|"""

_TAIL = """
GiB. `tuned`: a constant was chosen from this figure (what RMSNorm keeps, tensors of the VAE,
blocks of the denoiser), so it is no evidence and not in the median. Sequence lengths of litgpt's
table are the longest example of its data set, as it says itself. Contexts of qwen2 are the prompt
and 2048 generated tokens; the estimate counts logits for all of them, the run only for the prompt.

Not compared, because no published peak with all settings was found: CNN training, rendering,
simulation, training with ZeRO-1 and ZeRO-2, 8-bit optimizers, MLA, video models. For CNN and
simulation the table asks for two measured points or a small case instead.

Sources:
"""

if __name__ == "__main__":
    sys.stdout.write(page())
