"""Workloads, offers and plans from plain cells, for tests of the audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuferry.audit.choose.decision import Decision
from gpuferry.audit.choose.plan import Plan, make_plan
from gpuferry.audit.estimate.need import estimate
from gpuferry.audit.estimate.terms import Estimate, Layout
from gpuferry.audit.offers.load import Offers, offers_of
from gpuferry.audit.read.inventory import InventoryError, workloads_of
from gpuferry.audit.read.tables import Raw, Table
from gpuferry.audit.read.workload import Workload

LLAMA_8B = {
    "params": "8.03B", "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8,
    "intermediate": 14336, "vocab": 128256,
}  # fmt: skip
LLAMA_70B = {
    "params": "70.6B", "layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8,
    "intermediate": 28672, "vocab": 128256,
}  # fmt: skip


def rows(*many: dict[str, Any], folder: Path = Path()) -> list[Workload]:
    """Workloads of a table in memory."""
    raws = [Raw(f"row {i} ({c.get('id', '')})", i, c) for i, c in enumerate(many, 1)]
    return workloads_of(Table("table", raws), folder)


def row(**cells: Any) -> Workload:
    """One workload."""
    (workload,) = rows({"id": "w", "kind": "finetune", **cells})
    return workload


def problems(*many: dict[str, Any]) -> list[str]:
    """The mistakes of a table, as sentences."""
    try:
        rows(*many)
    except InventoryError as error:
        return [str(problem) for problem in error.problems]
    return []


def need(layout: Layout | None = None, **cells: Any) -> Estimate:
    """What one GPU needs."""
    found = estimate(row(**cells), layout or Layout(1))
    assert found is not None
    return found


def offers(*many: dict[str, Any], currency: str = "EUR") -> Offers:
    """Offers from cells; a large host, an hourly price and a fresh date unless said otherwise."""
    common = {
        "provider": "P", "gpus": 1, "cpu_cores": 256, "memory": "4 TiB", "disk": "60 TB",
        "price": 1.0, "currency": currency, "date": "2026-11-20",
    }  # fmt: skip
    raws = [
        Raw(f"offer {i}", i, {"id": f"o{i}", **common, **cells}) for i, cells in enumerate(many, 1)
    ]
    return Offers(tuple(offers_of(Table("offers", raws))), currency, {})


def planned(workloads: list[Workload], *many: dict[str, Any]) -> Plan:
    """A plan for workloads among offers."""
    return make_plan(workloads, offers(*many))


def decided(workload: Workload, *many: dict[str, Any]) -> Decision:
    """The decision about one workload."""
    return planned([workload], *many).decisions[0]
