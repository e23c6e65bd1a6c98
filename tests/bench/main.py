"""`ferry bench`: every figure is a ratio of two things measured in turn, in the same run."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from gpuferry.engine import find
from gpuferry.errors import SpecError
from gpuferry.operate.console import print_json, print_table, say_on_stderr
from gpuferry.prepare import docker_engine, prerequisites
from tests.bench import measures
from tests.bench.bench import Bench, Pair


@dataclass(frozen=True)
class Figure:
    """One ratio: ours against a peer's, medians of runs taken in turn."""

    name: str
    ours: float
    peer: str
    peers: float
    ratio: float
    aim: str
    met: bool | None
    runs: int
    unit: str = "s"


def run(names: list[str], *, runs: int, as_json: bool) -> int:
    """Measure; 0 when everything could be measured, whatever the figures are.

    Raises:
        SpecError: no such measure.
    """
    for name in names:
        if name not in measures.MEASURES:
            raise SpecError(f"{name!r} is no measure; accepted: {', '.join(measures.MEASURES)}.")
    if runs < 1:
        raise SpecError("--runs: at least 1.")
    had_engine = docker_engine.version() is not None
    if set(names or measures.MEASURES) - measures.NEED_NOTHING:
        prerequisites.prepare("local", say_on_stderr)
        find.ensure(say_on_stderr)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="gpuferry-bench-") as folder:
        os.environ["XDG_DATA_HOME"] = f"{folder}/data"
        os.environ["XDG_CONFIG_HOME"] = f"{folder}/config"
        bench = Bench(Path(folder), runs)
        try:
            for name in names or measures.MEASURES:
                say_on_stderr(f"measuring {name}")
                for pair in measures.MEASURES[name](bench):
                    figures.append(_figure(pair))
                    say_on_stderr(f"  {_sentence(figures[-1])}")
        finally:
            bench.close()
            if not had_engine:
                docker_engine.stop_own_if_idle()
    if as_json:
        print_json({"machine": _machine(), "figures": [asdict(figure) for figure in figures]})
    else:
        rows = [
            [
                f.name,
                f"{f.ours:.2f} {f.unit}",
                f.peer,
                f"{f.peers:.2f} {f.unit}",
                f"{f.ratio:.2f}",
                f.aim,
                {True: "met", False: "NOT met", None: ""}[f.met],
                str(f.runs),
            ]
            for f in figures
        ]
        columns = ["what", "ours", "peer", "peer's", "ratio", "aim", "", "runs"]
        print_table(_machine(), columns, rows)
    return 0


def _figure(pair: Pair) -> Figure:
    ours, peers = statistics.median(pair.ours), statistics.median(pair.peers)
    # Pair by pair, so that a machine whose speed drifts does not move the ratio.
    same = len(pair.ours) == len(pair.peers)
    ratios = [a / b for a, b in zip(pair.ours, pair.peers, strict=False)]
    ratio = statistics.median(ratios) if same else ours / peers
    met, aim = None, "none"
    if pair.at_most is not None or pair.seconds is not None:
        met = ratio <= (pair.at_most or ratio) and ours <= (pair.seconds or ours)
        parts = [f"<= {pair.at_most:g} x"] if pair.at_most else []
        aim = ", ".join(parts + ([f"<= {pair.seconds:.3g} {pair.unit}"] if pair.seconds else []))
    return Figure(
        pair.name,
        round(ours, 3),
        pair.peer,
        round(peers, 3),
        round(ratio, 3),
        aim,
        met,
        len(pair.ours),
        pair.unit,
    )


def _sentence(figure: Figure) -> str:
    return (
        f"{figure.name}: {figure.ours:.2f} {figure.unit}, {figure.peer}: {figure.peers:.2f} "
        f"{figure.unit}, "
        f"ratio {figure.ratio:.2f} (aim {figure.aim})"
    )


def _machine() -> str:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    today = datetime.datetime.now(datetime.UTC).date()
    return (
        f"{today}, {cores} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}"
    )
