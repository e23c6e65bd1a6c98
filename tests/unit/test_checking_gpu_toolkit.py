"""Containers get exactly the server's GPUs; CDI specifications and packages go stale."""

import json

import pytest
import yaml

from gpuferry.checking.gpu.toolkit import cdi_fresh, in_container, package_versions
from gpuferry.checking.gpu.versions import container_versions
from tests.support.surveys import VERSION, gpu, lost, survey

TWO = [gpu(0), gpu(1)]
NODES = {"/dev/nvidia0": 195, "/dev/nvidia1": 195, "/dev/nvidia-uvm": 511}
DEVICES = "Character devices:\n195 nvidia\n511 nvidia-uvm\n"


def listed(*indices):
    return "\n".join(f"GPU {i}: NVIDIA L4 (UUID: GPU-{i})" for i in indices)


@pytest.mark.parametrize(
    ("found", "way", "run", "status", "words"),
    [
        (survey(*TWO), "device", (listed(0, 1), ""), "pass", "2 GPUs, the same by UUID"),
        (survey(*TWO), "device", (listed(0), ""), "fail", "not in the container: GPU-1"),
        (survey(gpu(0)), "device", (listed(0, 1), ""), "fail", "only in the container: GPU-1"),
        (survey(*TWO), "runtime", ("", "docker run: unknown runtime"), "fail", "no GPU in the"),
        (survey(gpu(0), lost()), "device", (listed(0), "exit 15"), "not_measured", "not all GPUs"),
        (survey(*TWO), "runtime", (listed(0, 1), "exit code 9"), "fail", "but exit code 9"),
        (survey(), "device", ("", "no devices"), "not_measured", "NVML lists no GPU"),
        (survey(*TWO), "device", None, "not_measured", "hangs on the server itself"),
        (survey(lost()), "device", (listed(0), ""), "not_measured", "tells its UUID"),
    ],
)
def test_a_container_lists_exactly_the_gpus_of_the_server(found, way, run, status, words):
    container = {"output": run[0], "trouble": run[1]} if run else None
    judgement = in_container(found, way, container)
    assert (judgement.status, words in judgement.measured) == (status, True), judgement


@pytest.mark.parametrize(
    ("version", "way", "status"),
    [
        ("20.10.24+dfsg1", "device", "not_measured"),
        ("24.0.7", "device", "not_measured"),
        ("25.0.0", "device", "fail"),
        ("", "device", "fail"),
        ("20.10.24+dfsg1", "runtime", "fail"),
    ],
)
def test_docker_before_25_is_not_blamed_for_having_no_cdi(version, way, status):
    found = survey(*TWO, docker={"version": version})
    trouble = {"output": "", "trouble": "unresolvable CDI devices"}
    assert in_container(found, way, trouble).status == status


def specification(
    version=VERSION,
    names=("0", "1", "GPU-0", "GPU-1", "all"),
    uvm=511,
    devices_of="/dev/nvidia0",
    **more,
):
    uvm_node = {"path": "/dev/nvidia-uvm", **({"major": uvm} if uvm else {})}
    library = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{version}"
    return {
        "kind": "nvidia.com/gpu",
        "devices": [
            {"name": n, "containerEdits": {"deviceNodes": [{"path": devices_of}]}} for n in names
        ],
        "containerEdits": {"deviceNodes": [uvm_node], "mounts": [{"hostPath": library}]},
        **more,
    }


def with_files(*gpus, files, nodes=NODES, devices=DEVICES):
    return survey(*gpus, cdi={"files": files, "nodes": nodes, "devices": devices})


def with_specification(*gpus, nodes=NODES, devices=DEVICES, **more):
    files = {"/etc/cdi/nvidia.json": json.dumps(specification(**more))}
    return with_files(*gpus, files=files, nodes=nodes, devices=devices)


ONE = {"/etc/cdi/a.yaml": yaml.safe_dump(specification())}


@pytest.mark.parametrize(
    ("found", "status", "words"),
    [
        (with_specification(*TWO), "pass", "fits"),
        (with_files(*TWO, files=ONE), "pass", "/etc/cdi/a.yaml"),
        (with_files(*TWO, files={}), "fail", "no CDI specification"),
        (with_files(*TWO, files={"/etc/cdi/x.json": "{"}), "fail", "files: /etc/cdi/x.json"),
        (with_files(*TWO, files={**ONE, "/var/run/cdi/b.yaml": ONE["/etc/cdi/a.yaml"]}), "fail",
         "two specifications"),
        (with_specification(*TWO, kind="vendor.com/other"), "fail", "no CDI specification"),
        (with_specification(*TWO, version="550.90.07"), "fail", "550.90.07, now 550.163.01"),
        (with_specification(*TWO, containerEdits={}), "fail", "mounts no library"),
        (with_specification(*TWO, names=["0", "GPU-0", "all"]), "fail", "GPU-1 is not in it"),
        (with_specification(gpu(0)), "fail", "GPU-1 is no longer there"),
        (with_specification(gpu(0), lost()), "pass", "fits"),  # it is gpu.count that tells
        (with_specification(*TWO, names=["0", "all"]), "fail", "1 GPUs in it, now 2"),
        (with_specification(*TWO, names=["0", "1", "all"]), "pass", "fits"),
        (with_specification(*TWO, uvm=510), "fail", "/dev/nvidia-uvm has number 511, in it 510"),
        (with_specification(*TWO, uvm=None), "pass", "fits"),
        (with_specification(*TWO, devices="235 nvidia-uvm\n"), "fail", "the kernel gives 235"),
        (with_specification(*TWO, nodes={"/dev/nvidia0": 195}), "fail", "uvm does not exist"),
        (with_specification(), "not_measured", "nothing to compare with"),
        (with_specification(gpu(0, mig_mode=[1, 1]), names=["0:0", "MIG-7"]), "pass", "fits"),
        (with_specification(*TWO, devices_of="/dev/dri/card1"), "pass", "fits"),
    ],
)  # fmt: skip
def test_a_specification_is_about_the_driver_and_devices_of_now(found, status, words):
    judgement = cdi_fresh(found)
    assert (judgement.status, words in judgement.measured) == (status, True), judgement


@pytest.mark.parametrize(
    ("packages", "status"),
    [
        ({"nvidia-container-toolkit": "1.20.2-1"}, "pass"),
        ({"nvidia-container-toolkit": "1.20.2-1", "libnvidia-container1": "1.20.2-1"}, "pass"),
        ({"nvidia-container-toolkit": "1.20.2-1", "libnvidia-container1": "1.19.1-1"}, "fail"),
        ({}, "fail"),
    ],
)
def test_the_packages_have_one_version(packages, status):
    facts = {"packages": {name: {"version": version} for name, version in packages.items()}}
    assert package_versions(survey(*TWO, facts=facts)).status == status


@pytest.mark.parametrize(
    ("docker", "status", "words"),
    [
        ({"state": "ok", "containers": {}}, "not_measured", "no container with GPUs runs"),
        ({"state": "ok", "containers": {"a": [VERSION]}}, "pass", "550.163.01 in 1 container"),
        ({"state": "ok", "containers": {"a": [VERSION], "b": ["535.1"]}}, "fail", "b uses 535.1"),
        ({"state": "ok", "containers": {"a": ["535.1", VERSION]}}, "fail", "a uses 535.1, 550"),
        ({"state": "ok", "containers": {"a": []}}, "not_measured", "mounted in a"),
        ({"state": "hung"}, "not_measured", "docker ps: hung"),
    ],
)
def test_running_containers_use_the_driver_of_now(docker, status, words):
    judgement = container_versions(survey(*TWO, docker=docker))
    assert (judgement.status, words in judgement.measured) == (status, True), judgement


@pytest.mark.parametrize(
    ("others", "step"),
    [
        (["/etc/cdi/own.yaml"], "sudo rm /etc/cdi/own.yaml"),
        (["/var/run/cdi/nvidia.yaml"], ""),
        ([], ""),
    ],
)
def test_of_two_specifications_the_one_made_by_hand_is_to_go(others, step):
    text = ONE["/etc/cdi/a.yaml"]
    ours = {"/etc/cdi/nvidia.json": json.dumps(yaml.safe_load(text))}
    found = with_files(*TWO, files={**ours, **dict.fromkeys(others, text)})
    trouble = {"output": "", "trouble": "unresolvable CDI devices nvidia.com/gpu=all"}
    steps = [in_container(found, "device", trouble).next_step]
    steps += [cdi_fresh(found).next_step] if others else []
    assert all(s.endswith(step) and bool(s) == bool(step) for s in steps), steps


def test_of_two_specifications_made_by_hand_one_stays():
    text = ONE["/etc/cdi/a.yaml"]
    found = with_files(*TWO, files=dict.fromkeys(["/etc/cdi/a.yaml", "/etc/cdi/b.yaml"], text))
    assert cdi_fresh(found).next_step.endswith("sudo rm /etc/cdi/b.yaml")
