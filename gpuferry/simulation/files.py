"""Everything a server with simulated GPUs has below /var/lib/gpusim."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from gpuferry.driver.mig import profiles_of
from gpuferry.driver.rules import table
from gpuferry.errors import SpecError
from gpuferry.simulation import profiles
from gpuferry.simulation.compiled import compiled
from gpuferry.simulation.pci_tree import pci_tree
from gpuferry.simulation.scenario import MAX_GPUS, Scenario

FOLDER = "/var/lib/gpusim"
SOURCE = f"{FOLDER}/scenario.json"
COMPILED = f"{FOLDER}/scenario"
RUN_FOLDER = "/run/gpusim"

LIBRARY_FOLDER = "/opt/gpusim/lib"
PROGRAM = "/opt/gpusim/bin/gpusim"
# What a container needs besides the library, mounted to the same places.
CONTAINER_MOUNTS = (FOLDER, RUN_FOLDER)
# Linux' device numbers: 195 is NVIDIA's major, 255 the control device; uvm's major is given out by
# the kernel at run time.
_MAJOR, _CONTROL_MINOR, _UVM_MAJOR = 195, 255, 511
# Instances of one GPU that the library keeps (gpusim/src/mig.h).
MAX_INSTANCES = 8

# Outside of FOLDER: where the loader finds the library, and the run folder for every user.
SYSTEM_FILES = {
    "/etc/ld.so.conf.d/00-gpusim.conf": b"/opt/gpusim/lib\n",
    "/etc/tmpfiles.d/gpusim.conf": (
        b"d /run/gpusim 0755 root root\nd /run/gpusim/busy 1777 root root\n"
    ),
}


@dataclass(frozen=True)
class NodeFiles:
    """Absolute paths to contents, and links to where they point."""

    files: dict[str, bytes]
    links: dict[str, str]


def node_files(
    server_name: str,
    model: str,
    count: int,
    driver_version: str | None = None,
    cuda_version: str | None = None,
    *,
    driver: str | None = "nvidia",
) -> NodeFiles:
    """What the local provider puts on a server; the same arguments give the same files.

    Without a driver version no driver is loaded until the file `driver` says which, as
    `550.163.01 12.4`. The argument `driver` is the kernel driver bound to the GPUs in the PCI
    tree: None, `nvidia`, `nouveau`.

    Raises:
        SpecError: an unknown model, a wrong number, an unknown driver branch.
    """
    profile = profiles.find(model)
    if not 1 <= count <= MAX_GPUS:
        raise SpecError(f"{count} simulated GPUs are not possible; accepted: 1 to {MAX_GPUS}.")
    try:
        scenario = Scenario(
            profile=profile.model,
            count=count,
            driver_version=driver_version,
            cuda_version=cuda_version or (cuda_of(driver_version) if driver_version else None),
            seed=server_name,
        )
    except ValidationError as error:
        key = error.errors()[0]["loc"][0]
        raise SpecError(
            f"{key} {error.errors()[0]['input']!r} is not possible; accepted: a driver version "
            "such as 550.163.01, a CUDA version such as 12.4."
        ) from None
    files, links = pci_tree(profile, count, driver=driver)
    if profiles_of(profile.pci_device):
        files["proc/driver/nvidia-caps/mig-minors"] = mig_minors(count)
    root = f"{FOLDER}/root"
    return NodeFiles(
        files={**scenario_files(scenario), **{f"{root}/{p}": data for p, data in files.items()}},
        links={f"{root}/{path}": target for path, target in links.items()},
    )


def program_files(built: Path, driver_version: str) -> NodeFiles:
    """The library and the program, from the folder that `build` returned.

    The file is named by the driver's version and `libnvidia-ml.so.1` is a link, as in a real
    installation: nvidia-ctk finds the driver's libraries by that name, and only in this layout.
    """
    name = f"libnvidia-ml.so.{driver_version}"
    return NodeFiles(
        files={
            f"{LIBRARY_FOLDER}/{name}": (built / "lib/libnvidia-ml.so.1").read_bytes(),
            PROGRAM: (built / "bin/gpusim").read_bytes(),
        },
        links={f"{LIBRARY_FOLDER}/libnvidia-ml.so.1": name},
    )


def device_nodes(count: int) -> dict[str, tuple[int, int]]:
    """Character devices (path to major, minor) that nvidia-ctk wants to see; no driver answers."""
    nodes = {f"/dev/nvidia{index}": (_MAJOR, index) for index in range(count)}
    control = {"/dev/nvidiactl": (_MAJOR, _CONTROL_MINOR)}
    return {**nodes, **control, "/dev/nvidia-uvm": (_UVM_MAJOR, 0)}


def mig_minors(count: int) -> bytes:
    """The driver's list of capabilities by which MIG instances are given to containers.

    Path and number, from which follows the device /dev/nvidia-caps/nvidia-capN (MIG User Guide,
    device nodes and capabilities). The numbers of a real driver are others.
    """
    paths = ["config", "monitor"]
    for gpu in range(count):
        for instance in range(MAX_INSTANCES):
            paths += [f"gpu{gpu}/gi{instance}/access", f"gpu{gpu}/gi{instance}/ci0/access"]
    return "".join(f"{path} {minor}\n" for minor, path in enumerate(paths, 1)).encode()


def scenario_files(scenario: Scenario) -> dict[str, bytes]:
    """The scenario in both forms."""
    source = scenario.model_dump_json(indent=1, exclude_defaults=True) + "\n"
    return {SOURCE: source.encode(), COMPILED: compiled(scenario).encode()}


def cuda_of(driver_version: str) -> str:
    """The CUDA version that a driver offers.

    Raises:
        SpecError: an unknown driver branch.
    """
    branch = int(driver_version.split(".")[0])
    native: dict[str, int] = table("cuda")["native"]
    if branch not in native.values():
        raise SpecError(
            f"The CUDA version of driver {driver_version} is not known; branches: "
            f"{', '.join(map(str, native.values()))}. Give the CUDA version, too."
        )
    return max((version for version, least in native.items() if least == branch), key=float)
