"""What the kernel log says when a GPU fails, as records of /dev/kmsg.

Wordings: sample lines that leptonai/gpud and NVIDIA/NVSentinel test with.
"""

from __future__ import annotations

from gpuferry.simulation.pci_tree import Slot

_ERROR = 3  # KERN_ERR

# Behind "NVRM: Xid (PCI:0000:01:00): 79, ".
_PROCESS = "pid='<unknown>', name=<unknown>, "
XID_TEXTS = {
    13: _PROCESS + "Graphics Exception: ESR 0x504648=0x2000e 0x504650=0x20 0x504644=0xd3eff2",
    31: _PROCESS + "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS faulted",
    43: _PROCESS + "Ch 00000010",
    45: _PROCESS + "Ch 00000018",
    48: _PROCESS + "An uncorrectable double bit error (DBE) has been detected on GPU",
    61: _PROCESS + "Internal micro-controller breakpoint/warning",
    62: _PROCESS + "Internal micro-controller halt",
    63: "Row remapping event: Rows remapped, pending reset",
    64: "Row remapping failure: no rows available",
    74: _PROCESS + "NVLink: fatal error detected on link 3",
    79: _PROCESS + "GPU has fallen off the bus.",
    92: "High single-bit ECC error rate",
    94: _PROCESS + "Contained: memory error",
    95: _PROCESS + "Uncontained: memory error",
    119: _PROCESS + "Timeout after 6s of waiting for RPC response from GPU",
    120: _PROCESS + "GSP Error: Task 1 raised error code 0x5",
    140: _PROCESS + "An uncorrectable ECC error detected",
    149: "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)",
    154: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
}


def xid_message(slot: Slot, xid: int) -> str:
    """The line of one Xid."""
    text = XID_TEXTS.get(xid, _PROCESS + "Ch 00000000")
    return f"NVRM: Xid (PCI:{slot.domain:04x}:{slot.bus:02x}:{slot.device:02x}): {xid}, {text}"


def off_the_bus_message(slot: Slot) -> str:
    """Written without the word Xid when the driver notices it first."""
    return f"NVRM: GPU {slot}: GPU has fallen off the bus."


def record(message: str, sequence: int, uptime_seconds: float) -> str:
    """A record of /dev/kmsg: priority, sequence number, microseconds since boot, flags, text."""
    return f"{_ERROR},{sequence},{int(uptime_seconds * 1_000_000)},-;{message}\n"
