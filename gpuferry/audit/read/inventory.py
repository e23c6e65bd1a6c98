"""The whole table into workloads; every mistake of it is reported together."""

from __future__ import annotations

import dataclasses
import difflib
from pathlib import Path
from typing import Any

from gpuferry.audit.garbage import without_collections
from gpuferry.audit.read import contradictions
from gpuferry.audit.read.cells import Problem, accepted, parse
from gpuferry.audit.read.columns import ALIASES, COLUMNS, KINDS, Column
from gpuferry.audit.read.shape import fill_from_files
from gpuferry.audit.read.tables import Raw, Table, column_name, read_table
from gpuferry.audit.read.workload import Known, Workload
from gpuferry.errors import SpecError

_MISSING = {"", "-", "n/a", "na", "?", "none", "null", "unknown", "tbd"}
_VRAM = ("vram", "gpu_memory", "gpu_mem", "vram_gb", "vram_gib", "gpu_ram", "memory", "peak_memory")
_SHOWN = 60
# What people call a column whose name looks too different to be found by its letters.
_CALLED = {
    "name": "id", "workload": "id", "job": "id", "type": "kind", "task": "kind", "gpus": "gpus_now",
    "num_gpus": "gpus_now", "current_gpu": "source_gpu", "runtime": "run_time_now",
    "duration": "run_time_now", "data": "dataset", "data_volume": "dataset",
    "downtime": "tolerable_downtime", "model_size": "params",
}  # fmt: skip


class InventoryError(SpecError):
    """The table has mistakes; all of them are in `problems`."""

    def __init__(self, source: str, problems: list[Problem]) -> None:
        self.problems = problems
        lines = [str(problem) for problem in problems[:_SHOWN]]
        if len(problems) > _SHOWN:
            lines.append(f"... and {len(problems) - _SHOWN} more")
        count = f"{len(problems)} mistake{'s' if len(problems) != 1 else ''}"
        super().__init__("\n  ".join([f"{source}: {count}:", *lines]))


def read_inventory(path: Path) -> list[Workload]:
    """Read and check a table.

    Raises:
        InventoryError: with every mistake of the table.
        SpecError: the file cannot be read at all.
    """
    return workloads_of(read_table(path), path.resolve().parent)


def workloads_of(table: Table, folder: Path) -> list[Workload]:
    """The workloads of a table; paths in it start from `folder`.

    Raises:
        InventoryError: with every mistake of the table.
    """
    with without_collections():
        return _workloads_of(table, folder)


def _workloads_of(table: Table, folder: Path) -> list[Workload]:
    problems = list(table.problems)
    workloads = []
    seen: dict[str, str] = {}
    for name in {c for raw in table.rows for c in raw.cells} | set(table.defaults):
        problem = _unknown(name)
        if problem:
            users = [r.where for r in table.rows if name in r.cells]
            where = users[0] if users else "defaults"
            more = f" (and {len(users) - 1} more rows)" if len(users) > 1 else ""
            problems.append(dataclasses.replace(problem, row=where + more))
    for raw in table.rows:
        workload, found = _workload(raw, table.defaults)
        problems += found
        if workload is None:
            continue
        if workload.id in seen:
            why = f"is used twice; {seen[workload.id]} has it too"
            problems.append(Problem(raw.where, "id", workload.id, why))
        seen.setdefault(workload.id, raw.where)
        problems += fill_from_files(workload, folder, raw.where)
        problems += contradictions.of(workload, raw.where)
        workloads.append(workload)
    if problems:
        problems = sorted(without_repeats(problems, len(table.rows)), key=_order)
        raise InventoryError(table.source, problems)
    return workloads


def without_repeats(problems: list[Problem], rows: int) -> list[Problem]:
    """What every row of a table lacks, or has too much, is one mistake, not one for each row."""
    same: dict[Problem, list[Problem]] = {}
    for problem in problems:
        same.setdefault(dataclasses.replace(problem, row=""), []).append(problem)
    found: list[Problem] = []
    for key, many in same.items():
        everywhere = len(many) == rows > 1 and not key.value
        found += [dataclasses.replace(key, row="every row")] if everywhere else many
    return found


def _order(problem: Problem) -> tuple[int, str]:
    digits = "".join(c for c in problem.row.split("(")[0] if c.isdigit())
    return (int(digits or 0), problem.column)


def _unknown(name: str) -> Problem | None:
    stem = name.removesuffix(".basis").removesuffix(".date")
    if stem in COLUMNS or stem in ALIASES:
        return None
    if stem.lower() in _VRAM:
        why = "does not say for how many GPUs"
        accept = "peak_vram (largest on one GPU), peak_vram_total (sum over the GPUs of a run)"
        return Problem("", name, "", why, accept)
    called = _CALLED.get(column_name(stem))
    near = (
        [called]
        if called
        else difflib.get_close_matches(column_name(stem), [*COLUMNS, *ALIASES], n=2)
    )
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return Problem("", name, "", f"is no column{hint}", "see `./ferry audit columns`")


def _workload(raw: Raw, defaults: dict[str, Any]) -> tuple[Workload | None, list[Problem]]:
    cells = {**defaults, **raw.cells}
    problems: list[Problem] = []
    values: dict[str, Known] = {}
    of_row = _row_sides(cells)
    for name, content in cells.items():
        if content is None or content == "":
            continue
        column_name, unit = ALIASES.get(name, (name, ""))
        column = COLUMNS.get(column_name)
        if column is None or _is_missing(content, column):
            continue
        known = _known(raw.where, name, column, unit, content, cells, of_row)
        if isinstance(known, Problem):
            problems.append(known)
            continue
        there = values.get(column_name)
        if there is not None and there.value != known.value:
            why = f"says something else than another column for {column_name}"
            problems.append(Problem(raw.where, name, _shown(content), why))
        values[column_name] = known
    for name in ("id", "kind"):
        if name not in values and not any(p.column == name for p in problems):
            choices = ", ".join(KINDS) if name == "kind" else "a unique name"
            problems.append(Problem(raw.where, name, "", "is missing", choices))
    if "id" not in values or "kind" not in values:
        return None, problems
    workload = Workload(raw.number, values["id"].value, values["kind"].value, values)
    workload.notes = [known.note for known in values.values() if known.note]
    return workload, problems


Sides = tuple[Any, Any, frozenset[str]]


def _row_sides(cells: dict[str, Any]) -> Sides:
    """Basis and date of a row (wrong ones report themselves), and its columns for single ones."""
    found = []
    for side in ("basis", "date"):
        said = cells.get(side)
        try:
            found.append(None if _is_missing(said) else parse(COLUMNS[side], said)[0])
        except ValueError:
            found.append(None)
    columns = frozenset(name for name in cells if name.endswith((".basis", ".date")))
    return found[0] or "declared", found[1], columns


def _known(
    where: str, name: str, column: Column, unit: str, content: Any, cells: dict[str, Any],
    of_row: Sides,
) -> Known | Problem:  # fmt: skip
    """A cell with its basis and date: its own, those of its side columns, or the row's."""
    value = content
    own: dict[str, Any] = {}
    if isinstance(content, dict):
        extra = set(content) - {"value", "basis", "date"}
        if extra or "value" not in content:
            why = f"has {min(map(str, extra))!r}" if extra else "is a mapping without `value`"
            return Problem(where, name, "", why, "{value, basis, date}")
        value = content["value"]
        own = {side: content[side] for side in ("basis", "date") if side in content}
    if isinstance(value, dict | list | tuple | set):
        return Problem(where, name, "", "is a list or mapping", accepted(column))
    try:
        read, note = parse(column, value, unit)
    except ValueError as error:
        return Problem(where, name, _shown(value), str(error), accepted(column))
    basis, date, columns = of_row
    for side in ("basis", "date") if columns else ():
        for named in (f"{name}.{side}", f"{column.name}.{side}"):  # peak_vram_gib, peak_vram
            if side not in own and named in columns:
                own[side] = cells[named]
    if not own:
        return Known(read, basis, date, note)
    return _own_sides(where, name, Known(read, basis, date, note), own)


def _own_sides(where: str, name: str, known: Known, own: dict[str, Any]) -> Known | Problem:
    """A value with the basis and date that were given for it alone."""
    for side, said in own.items():
        try:
            found = None if _is_missing(said) else parse(COLUMNS[side], said)[0]
        except ValueError as error:
            accept = accepted(COLUMNS[side])
            return Problem(where, f"{name}.{side}", _shown(said), str(error), accept)
        if found:
            changed: dict[str, Any] = {side: found}
            known = dataclasses.replace(known, **changed)
    return known


def _is_missing(content: Any, column: Column | None = None) -> bool:
    """An empty cell; in a column of numbers also the words that people leave in it."""
    if not isinstance(content, str):
        return content is None
    word = content.strip().lower()
    if column and column.kind in ("text", "choice", "path", "gpu"):
        return not word
    return word in _MISSING


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
