"""Whether containers get exactly the server's GPUs, and whether what describes them is fresh."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

import yaml

from gpuferry.checking.gpu.judgement import Judgement, judge, not_measured, number_of
from gpuferry.checking.gpu.survey import Survey
from gpuferry.checking.gpu_container import GpuContainer

# CDI came with Docker 25 (release notes of 25.0.0).
FIRST_DOCKER_WITH_CDI = 25
# Of nvidia-cdi-refresh.service, on real servers and on those with simulated GPUs.
_OURS = ("/var/run/cdi/nvidia.yaml", "/etc/cdi/nvidia.json")
# They break when one of them is left behind (nvidia-container-toolkit#1091).
_PACKAGES = (
    "libnvidia-container1", "libnvidia-container-tools", "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
)  # fmt: skip
_VERSION = re.compile(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")
# Not the MIG devices, which stand below their GPU.
_UUID = re.compile(r"UUID: (GPU-[0-9a-f-]+)")


def in_container(survey: Survey, way: str, found: GpuContainer | None) -> Judgement:
    """A container that asked for GPUs in this way lists exactly those that NVML lists here."""
    asked = {"device": "--device nvidia.com/gpu=all", "runtime": "--runtime=nvidia"}[way]
    expected = f"{asked}: the GPUs of this server, by UUID"
    major = survey.docker.version.split(".")[0]
    if way == "device" and major.isdigit() and int(major) < FIRST_DOCKER_WITH_CDI:
        reason = f"Docker {survey.docker.version} has no CDI (from {FIRST_DOCKER_WITH_CDI} on)"
        return not_measured(reason, expected)
    if survey.no_nvml:
        return not_measured(f"NVML lists no GPU here either: {survey.no_nvml}", expected)
    if found is None:
        return not_measured("nvidia-smi hangs on the server itself", expected)
    if not survey.uuids:
        return not_measured("no GPU here tells its UUID to compare with", expected)
    listed = sorted(_UUID.findall(found["output"]))
    missing, surplus = set(survey.uuids) - set(listed), set(listed) - set(survey.uuids)
    problems = [f"not in the container: {u}" for u in sorted(missing)]
    problems += [f"only in the container: {u}" for u in sorted(surplus)]
    if problems or not listed:
        told = "; ".join(problems) if listed else "no GPU in the container"
        evidence = found["trouble"] or found["output"]
        next_step = _keep_one(_specifications(survey))
        return Judgement("fail", told, expected, evidence, next_step=next_step)
    told = f"{number_of(len(listed), 'GPU')}, the same by UUID"
    if len(listed) < len(survey.nvml.gpus):
        return not_measured(f"{told}; not all GPUs of the server answer", expected)
    if found["trouble"]:
        return judge(False, f"{told}, but {found['trouble']}", expected)
    return judge(True, told, expected, ", ".join(listed))


def cdi_fresh(survey: Survey) -> Judgement:
    """The CDI specification is about the driver and the devices of now.

    With a stale one nvidia-smi works in a container and cuInit fails (NVIDIA/NemoClaw#4733,
    nvidia-container-toolkit#1611).
    """
    expected = "driver, devices and device numbers of the specification are those of now"
    specifications = _specifications(survey)
    if not specifications:
        found = ", ".join(survey.cdi.files) or "none"
        return judge(False, f"no CDI specification of nvidia.com/gpu; files: {found}", expected)
    if len(specifications) > 1:
        told = f"two specifications of the same devices: {', '.join(specifications)}"
        return Judgement("fail", told, expected, next_step=_keep_one(specifications))
    if survey.no_nvml:
        return not_measured(f"nothing to compare with: {survey.no_nvml}", expected)
    path, document = next(iter(specifications.items()))
    problems = [
        *_driver_problems(survey, document),
        *_device_problems(survey, document),
        *_number_problems(survey, document),
    ]
    return judge(not problems, "; ".join(problems) or f"{path} fits", expected, path)


def package_versions(survey: Survey) -> Judgement:
    """The toolkit's packages have one version."""
    found = {n: survey.facts.packages[n].version for n in _PACKAGES if n in survey.facts.packages}
    told = ", ".join(f"{name} {version}" for name, version in found.items())
    return judge(len(set(found.values())) == 1, told or "not installed", "one version of all")


def _specifications(survey: Survey) -> dict[str, dict[str, Any]]:
    found = {}
    for path, text in survey.cdi.files.items():
        if not path.endswith((".json", ".yaml", ".yml")):
            continue
        try:
            document = json.loads(text) if path.endswith(".json") else yaml.safe_load(text)
        except (ValueError, yaml.YAMLError):
            continue
        if isinstance(document, dict) and document.get("kind") == "nvidia.com/gpu":
            found[path] = document
    return found


def _keep_one(specifications: Collection[str]) -> str:
    """What to do about several files that name the same devices: engines then know none of them.

    Empty where there are no several. What the role and NVIDIA's service write is not to go.
    """
    others = [path for path in specifications if path not in _OURS]
    others = others if len(others) < len(specifications) else others[1:]
    if not others:
        return ""
    return f"remove what was made by hand: ./ferry ssh {{server}} -- sudo rm {' '.join(others)}"


def _edits(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    parts = [document, *(document.get("devices") or [])]
    return [edit for part in parts for edit in (part.get("containerEdits") or {}).get(name) or []]


def _driver_problems(survey: Survey, document: dict[str, Any]) -> list[str]:
    now = str(survey.nvml.system.values.get("driver_version", ""))
    paths = [str(mount.get("hostPath", "")) for mount in _edits(document, "mounts")]
    named = sorted({match.group(1) for path in paths if (match := _VERSION.search(path))})
    if not named:
        return ["it mounts no library of the driver"]
    return [f"it is about driver {', '.join(named)}, now {now}"] if now and named != [now] else []


def _device_problems(survey: Survey, document: dict[str, Any]) -> list[str]:
    """Devices are named by index, by UUID, or both, as nvidia-ctk was told.

    Of a GPU that is cut into MIG devices only those are in it.
    """
    cut = {g.values["uuid"] for g in survey.answering if g.values.get("mig_mode", [0])[0]}
    names = {str(device.get("name", "")) for device in document.get("devices") or []} - {"all"}
    uuids = {name for name in names if name.startswith("GPU-")}
    indices = {name for name in names if name.isdigit()}
    problems = [f"{u} is not in it" for u in sorted(set(survey.uuids) - uuids - cut) if uuids]
    if len(survey.answering) == len(survey.nvml.gpus):
        problems += [f"{u} is no longer there" for u in sorted(uuids - set(survey.uuids))]
    count = len(survey.nvml.gpus)
    if not uuids and not cut and count and len(indices) != count:
        problems.append(f"{len(indices)} GPUs in it, now {count}")
    return problems


def _number_problems(survey: Survey, document: dict[str, Any]) -> list[str]:
    """Major numbers: nvidia-uvm's is given anew at every boot."""
    rows = (line.split() for line in survey.cdi.devices.splitlines())
    registered = {row[1]: int(row[0]) for row in rows if len(row) == 2 and row[0].isdigit()}
    uvm = registered.get("nvidia-uvm")
    problems = []
    for node in _edits(document, "deviceNodes"):
        path = str(node.get("hostPath") or node.get("path", ""))
        if not path.startswith("/dev/nvidia"):
            continue
        there = survey.cdi.nodes.get(path)
        if there is None:
            problems.append(f"{path} does not exist")
        elif node.get("major") not in (None, there):
            problems.append(f"{path} has number {there}, in it {node['major']}")
        if path == "/dev/nvidia-uvm" and uvm is not None and there not in (None, uvm):
            problems.append(f"{path} has number {there}, the kernel gives {uvm}")
    return list(dict.fromkeys(problems))
