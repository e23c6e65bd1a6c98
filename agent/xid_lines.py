"""Lines of the kernel's log about NVIDIA GPUs, taken apart. Pure.

Wordings as leptonai/gpud and NVIDIA/NVSentinel test with them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\)(?:[^:]*): (\d+)(?:,\s*(.*))?$")
SXID = re.compile(r"SXid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+),\s*(.*)$")
# Two wordings of a lost GPU that name no Xid.
LOST = re.compile(r"NVRM: GPU ([0-9a-fA-F:.]+): GPU has fallen off the bus")
LOST_FIRST = re.compile(r"NVRM: The NVIDIA GPU ([0-9a-fA-F:.]+)")
LOST_SECOND = re.compile(r"fallen off the bus and is not responding to commands")
_PROCESS = re.compile(r"pid='?(<unknown>|\d+)'?(?:,\s*name=(\S+?),)?")
FALLEN = 79


@dataclass(frozen=True)
class Line:
    """One fault of one device as the driver wrote it; `process` is its name where it is told."""

    kind: Literal["xid", "sxid"]
    code: int
    pci: str
    rest: str
    text: str

    @property
    def pid(self) -> int | None:
        """The process that is named, if one is."""
        found = _PROCESS.search(self.rest)
        return int(found.group(1)) if found and found.group(1).isdigit() else None

    @property
    def process(self) -> str:
        """Its name."""
        found = _PROCESS.search(self.rest)
        return (found.group(2) or "").strip("'<>") if found else ""


class Parser:
    """Takes lines one after the other: one wording of a loss spans two of them."""

    def __init__(self) -> None:
        self._lost = ""

    def parse(self, text: str) -> Line | None:
        """The fault that a line tells of, if it does."""
        text = text.rstrip("\n")
        if match := LOST_FIRST.search(text):
            self._lost = match.group(1)
        if match := XID.search(text):
            rest = match.group(3) or ""
            return Line("xid", int(match.group(2)), address(match.group(1)), rest, text)
        if match := SXID.search(text):
            pci = address(match.group(1))
            return Line("sxid", int(match.group(2)), pci, match.group(3), text)
        if match := LOST.search(text):
            return Line("xid", FALLEN, address(match.group(1)), "", text)
        if self._lost and LOST_SECOND.search(text):
            return Line("xid", FALLEN, address(self._lost), "", text)
        return None


def address(pci: str) -> str:
    """`0000:04:00` of all the ways in which a device is written."""
    plain = pci.lower().split(".")[0]
    if plain.count(":") != 2:
        return f"0000:{plain}"
    domain, rest = plain.split(":", 1)
    # NVML writes eight digits, the kernel's log four.
    return f"{domain[-4:].rjust(4, '0')}:{rest}"
