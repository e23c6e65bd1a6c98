"""Runs on the server: everything that the GPU checks judge, read at once and side by side.

Standard library only, Python 3.9 or newer; the fact gatherer's modules are loaded before it. Every
question that may never be answered runs in a process of its own with a deadline. One that cannot
even be ended (state D) is left behind, and no second one is started beside it.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ansible.module_utils import gpu_apt, gpu_facts, gpu_host, gpu_work  # type: ignore[import-untyped]

SMI, NVML = "nvidia-smi", "gpuferry-nvml"
_LOG_LINES = 4000
_FAULT = re.compile(r"NVRM|SXid|fallen off the bus")
# Not libcuda: CUDA images bring a newer one for compatibility.
_DRIVER_FILE = re.compile(r"libnvidia-(?:ml|cfg|opencl)\.so\.(\d{3}\.\d+(?:\.\d+)?)")


def run_program(source: str, argument: str, seconds: float) -> dict[str, Any]:
    """Run one of our programs; what it printed before its deadline is kept."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(
            [sys.executable, "-I", "-c", source, argument], stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        state = "ok"
        try:
            if child.wait(seconds) != 0:
                state = "failed"
        except subprocess.TimeoutExpired:
            state = "hung"
            gpu_host.end_politely(child)
        out.seek(0)
        return {"state": state, "code": child.poll(), "out": out.read().decode("utf-8", "replace")}


def stuck(name: str) -> list[int]:
    """Processes of that name which wait in the kernel, where nothing can end them."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as handle:
                pid, _, rest = handle.read().partition(" (")
        except OSError:
            continue
        comm, _, state = rest.rpartition(") ")
        if comm == name and state[:1] == "D":
            found.append(int(pid))
    return found


def smi(seconds: float) -> dict[str, Any]:
    """The table that people look at, and its exit code."""
    if pids := stuck(SMI):
        return {"state": "hung", "code": None, "out": "", "seconds": 0, "stuck": pids}
    started = time.monotonic()
    done = gpu_host.run_command([SMI], seconds)
    return {**done, "seconds": round(time.monotonic() - started, 2), "stuck": stuck(SMI)}


def nvml(source: str, seconds: float) -> dict[str, Any]:
    """The system first, then all GPUs side by side: one that hangs hides no other."""
    if pids := stuck(NVML):
        return {"system": {"hung": "an earlier call"}, "gpus": [], "stuck": pids}
    whole = transcript(run_program(source, "system", seconds))
    count = min(whole["values"].get("count", 0), 64)
    with ThreadPoolExecutor(max(1, count)) as pool:
        runs = list(pool.map(lambda i: run_program(source, str(i), seconds), range(count)))
    return {"system": whole, "gpus": [transcript(run) for run in runs], "stuck": stuck(NVML)}


def transcript(run: dict[str, Any]) -> dict[str, Any]:
    """What one process of nvml.py said, and the function that it still waits for."""
    values: dict[str, Any] = {}
    errors: dict[str, Any] = {}
    asked, ended = "", False
    for text in run["out"].splitlines():
        try:
            kind, *rest = json.loads(text)
        except ValueError:
            continue
        if kind == "ask":
            asked = rest[0]
        elif kind == "answer":
            values[rest[0]] = rest[1]
        elif kind == "error":
            errors[rest[0]] = rest[1:]
        ended = ended or kind == "end"
    hung = asked if run["state"] == "hung" else ""
    died = "" if ended or hung else asked or "its start"
    return {"values": values, "errors": errors, "hung": hung, "died": died}


def facts(host: Any) -> dict[str, Any]:
    """The part of the gatherer's facts that checks need."""
    release = (host.read("/proc/sys/kernel/osrelease") or "").strip()
    return {
        "simulated": host.exists("/var/lib/gpusim/scenario*"),
        "pci": gpu_facts.pci_devices(host),
        "kernel": gpu_facts.kernel(host, release),
        "virtualization": gpu_facts.virtualization(host),
        "packages": gpu_apt.installed_packages(host),
        "module": gpu_facts.module(host, release),
        "library": gpu_facts.library(host),
        "dkms": gpu_facts.dkms(host),
        "nouveau": gpu_facts.nouveau(host),
        "boot": gpu_facts.boot(host),
    }


def modules(host: Any) -> dict[str, str]:
    """Version of the module for the running and the newest installed kernel; empty: none."""
    release = (host.read("/proc/sys/kernel/osrelease") or "").strip()
    folders = [path.rsplit("/", 1)[1] for path in host.list("/lib/modules/*")]
    # A removed kernel may leave its folder behind.
    installed = [name for name in folders if host.exists(f"/boot/vmlinuz-{name}")] or folders
    newest = max(installed, key=lambda n: [int(x) for x in re.findall(r"\d+", n)], default=release)
    found = {}
    for kernel in (release, newest):
        infos = (gpu_facts.module_info(host, kernel, name) for name in gpu_facts.MODULES)
        found[kernel] = next((i["version"] for i in infos if i.get("version")), "")
    return found


def kernel_log(simulated: bool) -> dict[str, Any]:
    """Lines about GPUs since this boot; `source` is empty where the log cannot be read."""
    if simulated:
        try:
            with open("/run/gpusim/kmsg", encoding="utf-8", errors="replace") as handle:
                return {"source": "/run/gpusim/kmsg", "lines": handle.read().splitlines()}
        except OSError:
            return {"source": "/run/gpusim/kmsg", "lines": []}
    for argv in (["journalctl", "-q", "-k", "-b", "-o", "cat", "--no-pager"], ["dmesg"]):
        done = gpu_host.run_command(argv)
        if done["state"] == "ok" and done["out"].strip():
            lines = [line for line in done["out"].splitlines() if _FAULT.search(line)]
            return {"source": argv[0], "lines": lines[-_LOG_LINES:]}
    return {"source": "", "lines": []}


def docker(host: Any) -> dict[str, Any]:
    """Docker's version, and the driver version that running containers with GPUs have mounted."""
    done = gpu_host.run_command(["docker", "version", "--format", "{{.Server.Version}}"])
    running = gpu_work.containers(host)
    return {
        "version": done["out"].strip() if done["state"] == "ok" else "",
        "state": running["containers_state"],
        "containers": {c["name"]: mounted(c["id"]) for c in running["containers"]},
    }


def mounted(container: str) -> list[str]:
    """Versions in the names of the driver files that a container sees."""
    done = gpu_host.run_command(["docker", "inspect", "--format", "{{.State.Pid}}", container])
    try:
        with open(f"/proc/{int(done['out'])}/mountinfo", encoding="utf-8") as handle:
            return sorted(set(_DRIVER_FILE.findall(handle.read())))
    except (OSError, ValueError):
        return []


def cdi(host: Any) -> dict[str, Any]:
    """CDI specifications as they lie there, and the device numbers of now."""
    paths = [p for folder in ("/etc/cdi", "/var/run/cdi") for p in host.list(f"{folder}/*")]
    texts = {path: host.read(path, 1_000_000) or "" for path in paths}
    nodes = {}
    for path in glob.glob("/dev/nvidia*") + glob.glob("/dev/nvidia*/*"):
        status = os.stat(path)
        if status.st_rdev:
            nodes[path] = os.major(status.st_rdev)
    return {"files": texts, "nodes": nodes, "devices": host.read("/proc/devices") or ""}


def fabric_manager(host: Any) -> dict[str, str]:
    """The unit's properties."""
    names = ("LoadState", "ActiveState", "SubState", "Result")
    argv = ["systemctl", "show", "nvidia-fabricmanager.service", *(f"-p{name}" for name in names)]
    lines = host.output(argv).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def survey(request: dict[str, Any]) -> dict[str, Any]:
    """Read everything; `request` has the programs, their deadlines and the declared CUDA."""
    host = gpu_host.Host()
    if os.path.isdir(gpu_facts.SIMULATED_ROOT):
        host.pci_root = gpu_facts.SIMULATED_ROOT
    simulated = host.exists("/var/lib/gpusim/scenario*")
    programs, seconds = request["programs"], request["seconds"]
    declared = request["cuda"]
    with ThreadPoolExecutor(10) as pool:
        jobs: dict[str, Future[Any]] = {
            "nvml": pool.submit(nvml, programs["nvml"], seconds["nvml"]),
            "smi": pool.submit(smi, seconds["smi"]),
            "docker": pool.submit(docker, host),
            "kernel_log": pool.submit(kernel_log, simulated),
            "facts": pool.submit(facts, host),
            "modules": pool.submit(modules, host),
            "cdi": pool.submit(cdi, host),
            "fabric_manager": pool.submit(fabric_manager, host),
        }
        if declared["runtime"] or declared["toolkit"]:
            jobs["cuda"] = pool.submit(
                run_program, programs["cuda"], json.dumps(declared), seconds["cuda"]
            )
        answer = {name: job.result() for name, job in jobs.items()}
    answer["compute"] = None
    idle = all(gpu["values"].get("processes") == [] for gpu in answer["nvml"]["gpus"])
    if not simulated and answer["nvml"]["gpus"] and idle:
        answer["compute"] = run_program(programs["compute"], "", seconds["compute"])
    return answer
