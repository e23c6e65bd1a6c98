"""What a local server with simulated GPUs is given at creation, in the place of hardware.

The simulated NVML library, the PCI tree and device nodes that the fact gatherer and NVIDIA's
container toolkit look at, and the toolkit's package as an apt source, since NVIDIA's own is not for
simulated GPUs. What a driver's installation would bring is not here: that is the roles' work.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpuferry import simulation
from gpuferry.nodes.local.docker import ContainerFile
from gpuferry.prepare import toolkit_package
from gpuferry.simulation.files import SYSTEM_FILES, device_nodes

PROGRAMS = Path(__file__).with_name("gpu_inside")
_PACKAGES = "opt/local-packages"
_SOURCE = f"deb [trusted=yes] file:/{_PACKAGES} ./\n"
_DEVICES_UNIT = """[Unit]
Description=Device nodes of simulated GPUs
DefaultDependencies=no
After=systemd-tmpfiles-setup-dev.service ldconfig.service local-fs.target
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/opt/gpusim/bin/make-devices {nodes}
ExecStart=/sbin/ldconfig

[Install]
WantedBy=sysinit.target
"""
_CDI_DROPIN = """[Service]
ExecStart=
ExecStart=/opt/gpusim/bin/describe-gpus /etc/cdi/nvidia.json
"""


def files(server: str, model: str, count: int, say: Callable[[str], None]) -> list[ContainerFile]:
    """Everything, with paths relative to the server's root.

    Raises:
        SpecError: the model cannot be simulated, or not so many of it.
        StepFailed: the library or the package could not be built.
    """
    library = simulation.build(say)
    packages = toolkit_package.ensure(say)
    node = simulation.node_files(server, model, count)
    nodes = " ".join(f"{p}:{major}:{minor}" for p, (major, minor) in device_nodes(count).items())
    unit = "etc/systemd/system/gpusim-devices.service"
    found = [
        _file("opt/gpusim/lib/libnvidia-ml.so.1", library / "lib/libnvidia-ml.so.1", 0o755),
        _file("opt/gpusim/bin/gpusim", library / "bin/gpusim", 0o755),
        *(_file(f"opt/gpusim/bin/{p.stem}", p, 0o755) for p in sorted(PROGRAMS.glob("*.py"))),
        *(_file(f"{_PACKAGES}/{p.name}", p) for p in sorted(packages.iterdir())),
        *(ContainerFile(path.lstrip("/"), data, 0o644) for path, data in SYSTEM_FILES.items()),
        *(ContainerFile(path.lstrip("/"), data, 0o644) for path, data in node.files.items()),
        ContainerFile("etc/apt/sources.list.d/local-packages.list", _SOURCE, 0o644),
        ContainerFile(unit, _DEVICES_UNIT.format(nodes=nodes), 0o644),
        ContainerFile(
            "etc/systemd/system/nvidia-cdi-refresh.service.d/50-gpusim.conf", _CDI_DROPIN, 0o644
        ),
    ]
    links = {f"etc/systemd/system/sysinit.target.wants/{Path(unit).name}": f"/{unit}", **node.links}
    found += [ContainerFile(path.lstrip("/"), None, link=to) for path, to in links.items()]
    return [*_directories(found), *found]


def _file(path: str, source: Path, mode: int = 0o644) -> ContainerFile:
    return ContainerFile(path, source.read_bytes(), mode)


def _directories(files: list[ContainerFile]) -> list[ContainerFile]:
    """Parents under /opt and /var/lib/gpusim; the others are the system's and there already."""
    parents = {str(parent) for file in files for parent in Path(file.path).parents}
    ours = ("opt/", "var/lib/gpusim", "etc/systemd/system/nvidia-cdi-refresh.service.d")
    new = sorted(p for p in parents if p.startswith(ours))
    return [ContainerFile(path, None, 0o755) for path in new]
