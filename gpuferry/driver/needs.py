"""What the GPUs of one server ask of a driver, all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gpuferry.driver.facts import PciDevice
from gpuferry.driver.refusal import Refused
from gpuferry.driver.rules import architecture_of, first_branch_of, open_modules_fit, table

_MIXED_OPTIONS = (
    "put the GPUs of different generations into different servers",
    "bind some of them to vfio-pci (they are then left out of the plan)",
)


class Needs(BaseModel):
    """`last_branch` 0 means that none is known. `open`: of the kernel modules."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    devices: list[str]
    architectures: list[str]
    first_branch: int
    last_branch: int
    open: Literal["required", "forbidden", "either"]
    fabric_manager: bool = False
    nvlsm: bool = False

    def problem(self, branch: int, flavour: str) -> str:
        """Why a branch and flavour cannot drive these GPUs, or an empty string."""
        names = ", ".join(self.architectures)
        if branch < self.first_branch:
            return f"{names} needs branch {self.first_branch} or later"
        if self.last_branch and branch > self.last_branch:
            return f"branch {self.last_branch} is the last for {names}"
        if flavour == "open" and self.open == "forbidden":
            return f"the open modules cannot drive {names} (no GSP)"
        if flavour == "proprietary" and self.open == "required":
            return f"{names} works with the open modules only"
        if flavour == "open":
            known = [d for d in self.devices if architecture_of(d)]
            unfit = [d for d in known if not open_modules_fit(d, branch)]
            if unfit and self.open == "either":
                return f"the open modules of {branch} are not made for {', '.join(unfit)}"
        return ""


def needs_of(
    devices: Sequence[PciDevice], gpus: Sequence[PciDevice], *, told: bool = False
) -> Needs:
    """Intersect what every GPU needs; `devices` are all PCI devices (NVSwitches among them).

    `told`: branch and flavour were both named, so an unknown id needs no guess.

    Raises:
        Refused: an id is unknown, or no one driver fits all.
    """
    by_architecture: dict[str, list[str]] = {}
    for gpu in gpus:
        by_architecture.setdefault(architecture_of(gpu.device), []).append(gpu.device)
    unknown = by_architecture.pop("", [])
    if unknown and not told:
        shown = ", ".join(f"10de:{device}" for device in dict.fromkeys(unknown))
        raise Refused(
            "unknown_gpu",
            f"the PCI id {shown} is in no range that the rules know: flavour and branch would be "
            "guesses",
            "name both in the stack file, as the GPU's maker says: driver: {branch: …, flavour: …}",
            "update gpuferry: newer rules may know the GPU",
            "install a driver by hand; a working driver is left alone",
        )
    rows = {name: table("architectures")["architectures"][name] for name in by_architecture}
    ids = sorted({gpu.device for gpu in gpus})
    last = [row["last_branch"] for row in rows.values() if row["last_branch"]]
    hgx = _hgx(ids)
    needs = Needs(
        devices=ids,
        architectures=[*sorted(by_architecture), *(["an unknown architecture"] if unknown else [])],
        first_branch=max((first_branch_of(d) for d in ids if architecture_of(d)), default=0),
        last_branch=min(last) if last else 0,
        open=_flavour(rows),
        fabric_manager=bool(nvswitches(devices)) or bool(hgx),
        nvlsm=bool(hgx),
    )
    if needs.last_branch and needs.first_branch > needs.last_branch:
        raise Refused(
            "mixed_gpus",
            f"no driver branch drives {' and '.join(needs.architectures)} together: one needs "
            f"{needs.first_branch} or later, another ends with {needs.last_branch}",
            *_MIXED_OPTIONS,
        )
    return needs


def needs_fabric_manager(devices: Sequence[PciDevice]) -> bool:
    """Whether these PCI devices have NVLinks that a fabric manager brings up."""
    return bool(nvswitches(devices)) or bool(_hgx(d.device for d in devices if d.is_gpu))


def nvswitches(devices: Sequence[PciDevice]) -> list[PciDevice]:
    """NVSwitches that are on PCI."""
    known = {row["id"] for row in table("devices")["nvswitches"]}
    return [d for d in devices if d.vendor == "10de" and d.device in known]


def _hgx(ids: Iterable[str]) -> list[dict[str, Any]]:
    """Boards whose switches are not on PCI."""
    found = set(ids)
    return [row for row in table("devices")["hgx"] if set(row["ids"]) & found]


def _flavour(rows: dict[str, dict[str, str]]) -> Literal["required", "forbidden", "either"]:
    need = [name for name, row in rows.items() if row["open"] == "required"]
    forbid = [name for name, row in rows.items() if row["open"] == "forbidden"]
    if need and forbid:
        raise Refused(
            "mixed_gpus",
            f"{', '.join(need)} works with the open modules only, {', '.join(forbid)} not with "
            "them; one kernel loads one of the two",
            *_MIXED_OPTIONS,
        )
    return "required" if need else "forbidden" if forbid else "either"
