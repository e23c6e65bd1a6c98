"""The PCI devices of a simulated server, as files that stand in for /sys/bus/pci."""

from __future__ import annotations

from dataclasses import dataclass

from gpuferry.simulation.profiles import Profile

NVIDIA = 0x10DE
_GPU_FIRST_BUS = 0x01
_SWITCH_FIRST_BUS = 0x41  # gpusim/src/links.c names the same
# Root ports of a common server processor (pci.ids: 8086:347a "Ice Lake PCI Express Root Port A").
_BRIDGE_VENDOR, _BRIDGE_DEVICE = "8086", "347a"
_GENERATION_SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
_DRIVERS = "../../../../bus/pci/drivers"


@dataclass(frozen=True)
class Slot:
    """Where a device sits."""

    bus: int
    device: int = 0
    domain: int = 0

    def __str__(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}.0"


def gpu_slot(index: int) -> Slot:
    """The slot of one GPU."""
    return Slot(bus=_GPU_FIRST_BUS + index)


def nvswitch_count(profile: Profile, gpus: int) -> int:
    """NVSwitches are on the whole board only; a server with fewer GPUs has none."""
    switches = profile.nvswitches
    return switches.count if switches and gpus == switches.with_gpus else 0


def pci_tree(
    profile: Profile, count: int, *, driver: str | None
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Files and links below a root folder; `driver` is the kernel driver bound to the GPUs."""
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    generation = int(profile.readings["pcie_generation_max"])
    width = int(profile.readings["pcie_width_max"])
    for index in range(count):
        folder = f"sys/bus/pci/devices/{gpu_slot(index)}"
        identity = (f"{NVIDIA:04x}", profile.pci_device, f"{profile.pci_class}00")
        files |= _device(folder, *identity, f"{NVIDIA:04x}", profile.pci_subsystem)
        files |= _link_state(folder, generation, width)
        if driver:
            links[f"{folder}/driver"] = f"{_DRIVERS}/{driver}"
            files[f"sys/bus/pci/drivers/{driver}/module_name"] = f"{driver}\n".encode()
        port = f"sys/bus/pci/devices/{Slot(bus=0, device=1 + index)}"
        files |= _device(port, _BRIDGE_VENDOR, _BRIDGE_DEVICE, "060400", "0000", "0000")
        files |= _link_state(port, generation, width)
    for index in range(nvswitch_count(profile, count)):
        assert profile.nvswitches is not None
        folder = f"sys/bus/pci/devices/{Slot(bus=_SWITCH_FIRST_BUS + index)}"
        device = profile.nvswitches.device
        files |= _device(folder, f"{NVIDIA:04x}", device, "068000", f"{NVIDIA:04x}", device)
        files |= _link_state(folder, generation, 2)
        if driver == "nvidia":
            links[f"{folder}/driver"] = f"{_DRIVERS}/nvidia-nvswitch"
    return files, links


def _device(
    folder: str, vendor: str, device: str, kind: str, subvendor: str, subdevice: str
) -> dict[str, bytes]:
    values = {
        "vendor": f"0x{vendor}",
        "device": f"0x{device}",
        "class": f"0x{kind}",
        "subsystem_vendor": f"0x{subvendor}",
        "subsystem_device": f"0x{subdevice}",
        "revision": "0xa1" if vendor == f"{NVIDIA:04x}" else "0x06",
    }
    return {f"{folder}/{name}": f"{value}\n".encode() for name, value in values.items()}


def _link_state(folder: str, generation: int, width: int) -> dict[str, bytes]:
    speed = f"{_GENERATION_SPEEDS[generation]} GT/s PCIe\n".encode()
    lanes = f"{width}\n".encode()
    return {
        f"{folder}/current_link_speed": speed,
        f"{folder}/max_link_speed": speed,
        f"{folder}/current_link_width": lanes,
        f"{folder}/max_link_width": lanes,
    }
