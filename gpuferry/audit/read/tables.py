"""YAML, CSV and XLSX into raw rows: where each row stands, and its cells as they were written."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpuferry.audit.read.cells import Problem
from gpuferry.errors import SpecError

LARGEST_BYTES = 256 * 2**20


@dataclass
class Raw:
    """One row before it is understood."""

    where: str
    number: int
    cells: dict[str, Any]


@dataclass
class Table:
    """All rows, what holds for all of them, and what could not even be read."""

    source: str
    rows: list[Raw] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_table(path: Path) -> Table:
    """Read a table; the file's ending decides how.

    Raises:
        SpecError: the file is missing, empty, too large, damaged, or of another kind.
    """
    readers = {
        ".yaml": _yaml, ".yml": _yaml, ".csv": _csv, ".tsv": _csv, ".xlsx": _xlsx, ".xlsm": _xlsx,
    }  # fmt: skip
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise SpecError(f"{path}: not a table; accepted: {', '.join(readers)}.")
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise SpecError(f"{path}: larger than {LARGEST_BYTES >> 20} MiB; split the table.")
        table = reader(path)
    except FileNotFoundError:
        raise SpecError(
            f"{path}: no such table. `./ferry audit init {path.name}` writes an example."
        ) from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if not table.rows and not table.problems:
        raise SpecError(f"{path}: holds no workload. `./ferry audit init` writes an example.")
    return table


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """PyYAML's safe loader, which also refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value!r} is given twice", problem_mark=key.start_mark
                )
            if isinstance(key.value, str):
                seen.add(key.value)
        result: dict[Any, Any] = super().construct_mapping(node, deep)
        return result


def load_yaml(path: Path) -> Any:
    """A YAML document.

    Raises:
        SpecError: it is none, or it refers to itself.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8-sig"), Loader=_Loader)  # noqa: S506
    except RecursionError:
        raise SpecError(f"{path}: refers to itself, or is nested too deeply.") from None
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        why = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SpecError(f"{path}{where}: not valid YAML ({why}).") from None


def _yaml(path: Path) -> Table:
    document = load_yaml(path)
    table = Table(str(path))
    rows = document
    if isinstance(document, dict):
        unknown = [str(k) for k in document if k not in ("workloads", "defaults")]
        if unknown:
            why = "is not known at the top level"
            table.problems.append(Problem("", unknown[0], "", why, "defaults, workloads"))
        rows = document.get("workloads")
        defaults = document.get("defaults") or {}
        if isinstance(defaults, dict):
            table.defaults = {str(k): v for k, v in defaults.items()}
        else:
            table.problems.append(Problem("", "defaults", str(defaults), "is no mapping"))
    if rows is None:
        return table
    if not isinstance(rows, list):
        raise SpecError(f"{path}: `workloads:` has to be a list, one entry for each workload.")
    for index, row in enumerate(rows, 1):
        if isinstance(row, dict):
            name = f" ({row['id']})" if isinstance(row.get("id"), str | int) else ""
            table.rows.append(Raw(f"row {index}{name}", index, {str(k): v for k, v in row.items()}))
        else:
            table.problems.append(Problem(f"row {index}", "", _short(row), "is no mapping"))
    return table


def _short(value: object) -> str:
    text = repr(value) if isinstance(value, dict | list) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _csv(path: Path) -> Table:
    data = path.read_bytes()
    try:
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")  # what spreadsheets on Windows write
    table = Table(str(path))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        return table
    # The header names columns, so the separator is what stands between known words.
    separator = max(",;\t|", key=lines[0].count)
    csv.field_size_limit(2**20)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells) or cells[0].startswith("#"):
                continue
            if not header:
                header = [column_name(cell) for cell in cells]
                _check_header(table, header)
                continue
            where = f"line {reader.line_num}"
            if len(cells) > len(header) and any(c.strip() for c in cells[len(header) :]):
                why = (
                    f"the row has {len(cells)} cells, the header {len(header)}; a text with "
                    f"{separator!r} in it needs quotation marks"
                )
                table.problems.append(Problem(where, "", "", why))
                continue
            table.rows.append(_row(where, reader.line_num, zip(header, cells, strict=False)))
    except csv.Error as error:
        raise SpecError(f"{path}, line {reader.line_num}: not valid CSV ({error}).") from None
    return table


def column_name(text: str) -> str:
    """A heading as spreadsheets have it: `Peak VRAM (GiB)` is peak_vram_gib."""
    text = re.sub(r"[(\[]\s*([^)\]]*?)\s*[)\]]\s*$", r" \1", text.strip().lower())
    return re.sub(r"[\s/_-]+", "_", text.replace("%", "pct")).strip("_")


def _check_header(table: Table, header: list[str]) -> None:
    for name in sorted({n for n in header if n and header.count(n) > 1}):
        table.problems.append(Problem("header", name, "", "stands there twice"))


def _row(where: str, number: int, cells: Any) -> Raw:
    values = {name: value for name, value in cells if name and value is not None}
    label = str(values.get("id", "")).strip()
    return Raw(f"{where} ({label})" if label else where, number, values)


def _xlsx(path: Path) -> Table:
    import warnings

    import openpyxl

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # styles that openpyxl does not know
            values = openpyxl.load_workbook(path, data_only=True)
            formulas = openpyxl.load_workbook(path)
    except Exception as error:
        # Damaged and unusual files end in whatever openpyxl's parts raise.
        raise SpecError(f"{path}: not a readable XLSX file ({error}).") from None
    sheets = [sheet for sheet in values.worksheets if _has_header(sheet)]
    if not sheets:
        names = ", ".join(values.sheetnames)
        raise SpecError(f"{path}: no row has a cell 'id', the header (sheets: {names}).")
    named = [sheet for sheet in sheets if sheet.title.lower() in ("workloads", "inventory")]
    sheet = (named or sheets)[0]
    table = Table(str(path))
    if len(sheets) > 1 and not named:
        names = ", ".join(sheet.title for sheet in sheets)
        why = f"several sheets have a column id ({names}); name the one to be read workloads"
        table.problems.append(Problem("", "", "", why))
    source = formulas[sheet.title]
    for area in sheet.merged_cells.ranges:
        why = "is a merged cell; every row needs its own value"
        table.problems.append(Problem(f"cells {area.coord}", "", "", why))
    header: list[str] = []
    for cells in sheet.iter_rows():
        texts = ["" if c.value is None else str(c.value).strip() for c in cells]
        if not any(texts) or texts[0].startswith("#"):
            continue
        if not header:
            columns = [column_name(text) for text in texts]
            if "id" in columns:
                header = columns
                _check_header(table, header)
            continue
        number = cells[0].row
        pairs = zip(header, _excel(table, cells, header, source), strict=False)
        table.rows.append(_row(f"row {number}", number, pairs))
    return table


def _has_header(sheet: Any) -> bool:
    rows = sheet.iter_rows(max_row=100, values_only=True)
    return any(column_name(str(v or "")) == "id" for row in rows for v in row)


def _excel(table: Table, cells: Any, header: list[str], source: Any) -> Iterator[Any]:
    for cell, column in zip(cells, header, strict=False):
        value = cell.value
        if value is None:
            wanted = source.cell(row=cell.row, column=cell.column).value
            if isinstance(wanted, str) and wanted.startswith("="):
                why = "is a formula without a stored result; open and save it in a spreadsheet"
                table.problems.append(Problem(f"row {cell.row}", column, wanted, why))
        elif isinstance(value, int | float) and "%" in (cell.number_format or ""):
            value = f"{value * 100:.12g} %"  # a cell that shows 80 % holds 0.8
        yield value
