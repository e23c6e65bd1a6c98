"""Servers with two simulated L4, all GPU roles, and work on them that really runs."""

from __future__ import annotations

import json
from typing import Any

from gpuferry.converge.run import converge
from gpuferry.desired import GPU_DOCKER, GPU_ROLES
from gpuferry.nodes.local import baked, baked_image, image
from tests.support.node import Node, NodeMaker, own_turn

# What a healthy server with two simulated L4 cannot tell, and says so.
NEVER = {
    "container_toolkit.running",
    "fabric_manager.running",
    "gpu.compute",
    "nvidia_driver.module_for_kernels",
    "nvidia_driver.persistence",
}
_DEBIAN = "debian-13"
BUSY = "/opt/gpusim/bin/gpusim busy --gpu 1 --seconds 900"
# The few libraries that nvidia-smi and sleep need, taken from the server itself: no registry.
_IMAGE = r"""
import io, os, re, subprocess, sys, tarfile
buffer = io.BytesIO()
with tarfile.open(fileobj=buffer, mode="w") as tar:
    for program in ("/usr/bin/nvidia-smi", "/usr/bin/sleep"):
        linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        for path in {*re.findall(r"(/\S+) \(0x", linked), "/usr/bin/sleep"}:
            if path not in tar.getnames() and path.lstrip("/") not in tar.getnames():
                tar.add(os.path.realpath(path), path)
    for folder in ("etc", "tmp", "proc", "sys", "dev", "run", "var"):
        entry = tarfile.TarInfo(folder)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(entry)
subprocess.run(["docker", "import", "-", "work"], input=buffer.getvalue(), check=True)
"""


def variables(**more: Any) -> dict[str, Any]:
    """What the stack file would make of such a server."""
    return {
        "nvidia_driver_wish": {"gpus": 2},
        "docker_daemon_options": GPU_DOCKER,
        **more,
    }


def make(new_node: NodeMaker, model: str = "L4", **more: Any) -> Node:
    """A server with two GPUs on which all GPU roles were played; `more` are variables.

    It starts from an image that is baked once for all tests, as `ferry image build` does it.
    """
    key = json.dumps(variables(), sort_keys=True)
    with own_turn():
        if baked_image.find(image.reference(_DEBIAN), key) is None:
            roles = {"ferry_roles": GPU_ROLES, **variables()}
            gpus = {"model": "L4", "count": 2}
            baked.build("gpu-1", _DEBIAN, gpus, roles, key, lambda text: None)
    node = new_node(_DEBIAN, name="gpu-1", gpu_model=model, gpu_count=2, baked_key=key)
    played = node.variables(*GPU_ROLES, **variables(**more))
    converge([node.entry().model_copy(update={"variables": played})], say=node.said.append)
    return node


def start_process(node: Node) -> None:
    """A process that keeps a GPU busy."""
    node.run(
        f"systemd-run -q --collect --unit=work {BUSY}; "
        "for _ in $(seq 100); do "
        "nvidia-smi --query-compute-apps=pid --format=csv,noheader | grep -q . && exit; sleep 0.1; "
        "done; exit 1"
    )


def start_container(node: Node) -> None:
    """A container that was given the GPUs, and only sleeps."""
    node.run(f"docker image inspect work >/dev/null 2>&1 || python3 - <<'END'\n{_IMAGE}\nEND")
    node.run(
        "docker run -q -d --name trainer --network=none --device nvidia.com/gpu=all work "
        "/usr/bin/sleep 900; "
        "docker exec trainer nvidia-smi -L | grep -c simulated"
    )


def end_work(node: Node) -> None:
    """Nobody works any more."""
    node.run(
        "systemctl stop work 2>/dev/null || true; "
        "docker rm -f trainer >/dev/null 2>&1 || true; "
        "for _ in $(seq 100); do "
        "test -z \"$(nvidia-smi --query-compute-apps=pid --format=csv,noheader)\" && exit; "
        "sleep 0.1; done; exit 1"
    )  # fmt: skip
