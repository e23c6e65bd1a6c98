"""Who works with the GPUs of a server: processes, holders of the device, containers.

Standard library only, Python 3.9 or newer; read through the same :class:`Host` as all facts.
"""

from __future__ import annotations

import json
import os
import re

from ansible.module_utils.gpu_host import ABSENT

# nvidia-smi without NVML: no device, no driver loaded, no library, another version than the
# module's. NVML can tell of no work then, and none can start; who holds the device is seen still.
WITHOUT_NVML = (6, 9, 12, 18)


def use(host, smi):
    """Who works with the GPUs: device holders, compute processes, containers."""
    state = ABSENT if smi["state"] == "failed" and smi["code"] in WITHOUT_NVML else smi["state"]
    compute = {"state": state, "out": ""}
    if smi["state"] == "ok":
        query = ["nvidia-smi", "--query-compute-apps=pid,process_name", "--format=csv,noheader"]
        compute = host.run(query)
    rows = [line.partition(", ") for line in compute["out"].splitlines()]
    names = {int(pid): name for pid, _, name in rows if pid.strip().isdigit()}
    places = gpus_of_processes(host, smi) if names else {}
    return {
        "holders": holders(host),
        "compute": [
            {"pid": pid, "name": name, "gpus": places.get(pid, [])} for pid, name in names.items()
        ],
        "compute_state": compute["state"],
        **containers(host),
    }


def gpus_of_processes(host, smi):
    """Numbers of the GPUs that each compute process is on."""
    query = ["nvidia-smi", "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader"]
    numbers = {gpu["uuid"]: int(gpu["index"]) for gpu in smi["gpus"] if gpu["index"].isdigit()}
    found = {}
    for line in host.output(query).splitlines():
        pid, _, uuid = line.partition(", ")
        if pid.strip().isdigit() and uuid.strip() in numbers:
            found.setdefault(int(pid), set()).add(numbers[uuid.strip()])
    return {pid: sorted(gpus) for pid, gpus in found.items()}


def holders(host):
    """Processes with an open /dev/nvidia*; NVIDIA's own daemons hold it without working."""
    found = {}
    for path in host.list("/proc/[0-9]*/fd/*"):
        target = ""
        try:
            target = os.readlink(host._at(path))
        except OSError:
            continue
        if target.startswith("/dev/nvidia"):
            host.links[path] = target
            pid = int(path.split("/")[2])
            name = (host.read(f"/proc/{pid}/comm") or "").strip()
            gpus = found.setdefault(pid, {"pid": pid, "name": name, "gpus": []})["gpus"]
            number = target[len("/dev/nvidia") :]
            if number.isdigit() and int(number) not in gpus:
                gpus.append(int(number))
    host.folders["/proc/[0-9]*/fd/*"] = []
    return list(found.values())


def containers(host):
    """Running containers that were given GPUs, as Docker tells."""
    if not host.exists("/run/docker.sock"):
        return {"containers": [], "containers_state": ABSENT}
    listed = host.run(["docker", "ps", "-q", "--no-trunc"])
    if listed["state"] != "ok" and not has_containers(host):
        return {"containers": [], "containers_state": ABSENT}
    ids = listed["out"].split() if listed["state"] == "ok" else []
    if not ids:
        return {"containers": [], "containers_state": listed["state"]}
    form = "{{json .Id}} {{json .Name}} {{json .HostConfig.DeviceRequests}} " \
           "{{json .HostConfig.Runtime}} {{json .HostConfig.Devices}}"  # fmt: skip
    shown = host.run(["docker", "inspect", "--format", form, *ids])
    found = []
    for line in shown["out"].splitlines():
        words = line.split(" ", 2)
        if len(words) == 3 and re.search(r'"(gpu|nvidia)"|nvidia|"gpu"', words[2]):
            found.append({"id": json.loads(words[0])[:12], "name": json.loads(words[1]).strip("/")})
    return {"containers": found, "containers_state": shown["state"]}


def has_containers(host):
    """Whether any container runs, told without Docker: its shim lives on; others are not kept."""
    before, paths = dict(host.files), host.list("/proc/[0-9]*/comm")
    shims = [p for p in paths if (host.read(p) or "").startswith("containerd-shim")]
    host.files = {**before, **dict.fromkeys(shims, "containerd-shim")}
    host.folders["/proc/[0-9]*/comm"] = shims
    return bool(shims)
