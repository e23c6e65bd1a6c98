"""Offer files into offers; every mistake of a file is reported together."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from gpuferry.audit.catalogue.gpu import Gpu
from gpuferry.audit.catalogue.load import catalogue
from gpuferry.audit.catalogue.match import lookup
from gpuferry.audit.offers.offer import Offer
from gpuferry.audit.read.cells import Problem, accepted, parse
from gpuferry.audit.read.columns import Column, aliases
from gpuferry.audit.read.inventory import InventoryError, without_repeats
from gpuferry.audit.read.tables import Raw, Table, load_yaml, read_table
from gpuferry.errors import SpecError

_KINDS = ("on-demand", "spot", "reserved", "dedicated")
_COLUMNS = {
    column.name: column
    for column in (
        Column("id", "text", "unique name"),
        Column("provider", "text", "who rents it out"),
        Column("gpu", "gpu", "GPU by its name in the catalogue"),
        Column("gpus", "number", "GPUs of the machine", low=1, high=16, whole=True),
        Column("mig", "text", "MIG slice, such as 3g.40gb"),
        Column("cpu_cores", "number", "cores", low=1, high=4096),
        Column("memory", "size", "host memory", low=1),
        Column("disk", "size", "local NVMe"),
        Column("network", "rate", "between servers"),
        Column("price", "number", "for one period", high=1e7),
        Column("currency", "text", "ISO 4217 code"),
        Column("period", "choice", "that the price is for", ("hour", "month")),
        Column("setup_fee", "number", "once", high=1e7),
        Column("term", "duration", "shortest time to rent"),
        Column("date", "date", "of the price"),
        Column("kind", "choice", "of offer", _KINDS),
        Column("region", "text", "where it is"),
        Column("source", "text", "where the price was read"),
        Column("max_servers", "number", "that can be had", low=1, high=4096, whole=True),
    )
}
_ALIASES = aliases(_COLUMNS)
_TERM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(months?|years?|mo)\s*")


@dataclass(frozen=True)
class Offers:
    """All offers, the currency they are compared in, and what others are worth in it."""

    offers: tuple[Offer, ...]
    currency: str
    rates: dict[str, float]
    source: str = ""

    def converted(self, value: float | None, currency: str) -> float | None:
        """A price in the common currency, None where there is no rate."""
        if value is None:
            return None
        if currency == self.currency:
            return value
        rate = self.rates.get(currency)
        return None if rate is None else value * rate


def example_text() -> str:
    """The example set, as a file to start from."""
    return resources.files(__package__).joinpath("example.yaml").read_text(encoding="utf-8")


def hypothetical() -> Offers:
    """Every GPU of the catalogue in servers of 1, 2, 4 and 8, without prices."""
    offers = tuple(
        Offer(f"{gpu.name} x {count}", "", gpu, count, gpu.visible_bytes)
        for gpu in catalogue()
        for count in (1, 2, 4, 8)
    )
    return Offers(offers, "", {}, "the catalogue (no offers given)")


def load_offers(path: Path) -> Offers:
    """Read an offer file (YAML with `offers:`, CSV or XLSX).

    Raises:
        InventoryError: with every mistake of the file.
        SpecError: it cannot be read at all.
    """
    currency = ""
    rates: dict[str, float] = {}
    if path.suffix.lower() in (".yaml", ".yml"):
        table, currency, rates = _yaml(path)
    else:
        table = read_table(path)
    offers = offers_of(table)
    if not offers:
        raise SpecError(f"{path}: holds no offer. `./ferry audit init --offers FILE` writes some.")
    currencies = [o.currency for o in offers if o.currency]
    common = currency or (Counter(currencies).most_common(1)[0][0] if currencies else "USD")
    return Offers(tuple(offers), common, rates, str(path))


def _yaml(path: Path) -> tuple[Table, str, dict[str, float]]:
    """The offers of a YAML file as a table, the common currency, what others are worth in it."""
    try:
        document = load_yaml(path)
    except FileNotFoundError:
        raise SpecError(
            f"{path}: no such offer file. `./ferry audit init --offers FILE` writes an example."
        ) from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if not isinstance(document, dict) or not isinstance(document.get("offers"), list):
        raise SpecError(f"{path}: a list `offers:` is required.")
    table = Table(str(path))
    for key in set(map(str, document)) - {"offers", "currency", "rates", "defaults"}:
        accept = "offers, currency, rates, defaults"
        table.problems.append(Problem("", key, "", "is not known at the top level", accept))
    common = document.get("defaults") or {}
    if not isinstance(common, dict):
        table.problems.append(Problem("", "defaults", str(common), "is no mapping"))
        common = {}
    currency = str(document.get("currency") or "")
    if currency:
        common = {"currency": currency, **common}
    for index, row in enumerate(document["offers"], 1):
        if not isinstance(row, dict):
            table.problems.append(Problem(f"offer {index}", "", str(row)[:60], "is no mapping"))
            continue
        cells = {**common, **{str(k): v for k, v in row.items()}}
        name = f" ({cells['id']})" if cells.get("id") else ""
        table.rows.append(Raw(f"offer {index}{name}", index, cells))
    return table, currency, _rates(table, document.get("rates") or {}, currency)


def _rates(table: Table, rates: Any, currency: str) -> dict[str, float]:
    good = isinstance(rates, dict) and all(
        re.fullmatch(r"[A-Z]{3}", str(code)) and code != currency
        and type(rate) in (int, float) and 0 < rate < math.inf
        for code, rate in rates.items()
    )  # fmt: skip
    if not good:
        accept = "such as {EUR: 1.08}: one euro in the common currency, for other currencies only"
        table.problems.append(Problem("", "rates", str(rates), "is no table of rates", accept))
        return {}
    return {str(code): float(rate) for code, rate in rates.items()}


def offers_of(table: Table) -> list[Offer]:
    """The offers of a table.

    Raises:
        InventoryError: with every mistake of it.
    """
    problems, offers = list(table.problems), []
    seen: dict[str, str] = {}
    for raw in table.rows:
        values, found = _values(raw)
        problems += found
        offer = _offer(raw, values, problems) if not found else None
        if offer is None:
            continue
        if offer.id in seen:
            why = f"is used twice; {seen[offer.id]} has it too"
            problems.append(Problem(raw.where, "id", offer.id, why))
        seen.setdefault(offer.id, raw.where)
        offers.append(offer)
    if problems:
        raise InventoryError(table.source, without_repeats(problems, len(table.rows)))
    return offers


# What sellers call it.
_MEANT = {
    "vcpu": ["cpu_cores"], "vcpus": ["cpu_cores"], "cpus": ["cpu_cores"], "cores": ["cpu_cores"],
    "ram": ["memory"], "storage": ["disk"], "nvme": ["disk"], "gpu_count": ["gpus"],
}  # fmt: skip


def _values(raw: Raw) -> tuple[dict[str, Any], list[Problem]]:
    values: dict[str, Any] = {}
    problems = []
    for name, content in raw.cells.items():
        stem, unit = _ALIASES.get(name, (name, ""))
        column = _COLUMNS.get(stem)
        if column is None:
            near = _MEANT.get(name) or difflib.get_close_matches(name, _COLUMNS, n=1)
            why = "is no column of an offer" + (f"; did you mean {near[0]}?" if near else "")
            problems.append(Problem(raw.where, name, "", why, ", ".join(_COLUMNS)))
            continue
        if content is None or (isinstance(content, str) and not content.strip()):
            continue
        if name == "term" and (match := _TERM.fullmatch(str(content))):
            years = match.group(2).startswith("y")
            values[name] = float(match.group(1)) * (12 if years else 1) * 730 * 3600
            continue
        try:
            values[stem] = parse(column, content, unit)[0]
        except ValueError as error:
            problems.append(Problem(raw.where, name, str(content), str(error), accepted(column)))
    return values, [*problems, *_missing(raw, values, {p.column for p in problems})]


def _missing(raw: Raw, values: dict[str, Any], named: set[str]) -> list[Problem]:
    problems = [
        Problem(raw.where, name, "", "is missing")
        for name in ("id", "provider", "gpu", "gpus")
        if name not in values and name not in named
    ]
    if values.get("price") == 0:
        why = "is nothing; leave it out where the price is not known"
        problems.append(Problem(raw.where, "price", "0", why))
    if "price" in values and not values.get("currency"):
        why = "is missing; a price needs one"
        problems.append(Problem(raw.where, "currency", "", why, "a code such as USD or EUR"))
    elif values.get("currency") and not re.fullmatch(r"[A-Z]{3}", values["currency"]):
        why = "is no currency"
        accept = "a code such as USD or EUR"
        problems.append(Problem(raw.where, "currency", values["currency"], why, accept))
    return problems


def _can_be_cut(gpu: Gpu, slices: int, gigabytes: int) -> bool:
    """Whether such a part can exist: one memory slice for each compute slice, at most two.

    Of eight memory slices where there are seven compute slices (NVIDIA MIG user guide).
    """
    if slices > gpu.mig_slices:
        return False
    whole = 8 if gpu.mig_slices == 7 else gpu.mig_slices
    return gigabytes <= gpu.vram_gb * min(1.0, 2 * slices / whole) * 1.02


def _offer(raw: Raw, values: dict[str, Any], problems: list[Problem]) -> Offer | None:
    match = lookup(values["gpu"])
    if match.gpu is None:
        problems.append(Problem(raw.where, "gpu", values["gpu"], match.why, match.accepted))
        return None
    gpu = match.gpu
    visible, share = gpu.visible_bytes, 1.0
    if "mig" in values:
        slice_ = re.fullmatch(r"([1-7])g\.(\d+)gb", values["mig"].lower())
        if not slice_ or not _can_be_cut(gpu, int(slice_.group(1)), int(slice_.group(2))):
            why = f"is no slice of {gpu.name}" if gpu.mig_slices else f"{gpu.name} has no MIG"
            accept = "such as 1g.10gb, 3g.40gb"
            problems.append(Problem(raw.where, "mig", values["mig"], why, accept))
            return None
        share = int(slice_.group(1)) / gpu.mig_slices
        visible = min(int(slice_.group(2)) * 1e9, gpu.visible_bytes)
    return Offer(
        id=values["id"],
        provider=values["provider"],
        gpu=gpu,
        gpus=int(values["gpus"]),
        visible_bytes=visible,
        share=share,
        mig=values.get("mig", ""),
        cpu_cores=values.get("cpu_cores", 0.0),
        memory=values.get("memory", 0.0),
        disk=values.get("disk", 0.0),
        network=values.get("network", 0.0),
        price=values.get("price"),
        currency=values.get("currency", ""),
        period=values.get("period", "hour"),
        setup_fee=values.get("setup_fee", 0.0),
        term_months=values.get("term", 0.0) / (730 * 3600),
        date=values.get("date"),
        kind=values.get("kind", "on-demand"),
        region=values.get("region", ""),
        source=values.get("source", ""),
        max_servers=int(values.get("max_servers", 1)),
    )
