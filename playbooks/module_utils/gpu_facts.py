"""What a driver plan is decided on, read without changing anything.

Runs on the server as root, inside the Ansible module or sent over stdin; standard library only,
Python 3.9 or newer. Everything is read through one :class:`Host`: a folder that stands for `/`, a
folder that stands for the PCI tree, and a command runner. A problem report is therefore a folder.
"""

from __future__ import annotations

import json
import os
import re
import time

from ansible.module_utils.gpu_apt import apt, candidates, installed_packages, simulation
from ansible.module_utils.gpu_host import HUNG, Host, run_command
from ansible.module_utils.gpu_work import use

SCHEMA = 1
NVIDIA = "10de"
# "Hardware" of a server with simulated GPUs.
SIMULATED_ROOT = "/var/lib/gpusim/root"
# Debian builds the module under other file names.
MODULES = ("nvidia", "nvidia-current", "nvidia-current-open", "nvidia-tesla-470")


def gather(root="/", run=run_command, pci_root=None, simulate=()):
    """Facts as a JSON-able mapping; see `gpuferry/driver/facts.py` for the meaning.

    `simulate`: lists of apt arguments (`name` or `name=version`) to be tried with `apt-get -s`.
    """
    return gather_from(Host(root, run, pci_root), simulate)


def gather_from(host, simulate=(), also=()):
    """The same, from a host that the caller keeps for its recording.

    `also` names packages to look at besides the families.
    """
    started = time.monotonic()
    release = (host.read("/proc/sys/kernel/osrelease") or "").strip()
    packages = installed_packages(host, also)
    smi = nvidia_smi(host)
    system = operating_system(host)
    facts = {
        "schema": SCHEMA,
        "simulated": host.exists("/var/lib/gpusim/scenario*"),
        "pci": pci_devices(host),
        "kernel": kernel(host, release),
        "os": system,
        "virtualization": virtualization(host),
        "secure_boot": secure_boot(host),
        "packages": packages,
        "candidates": candidates(host, also),
        "apt": apt(host, system["codename"]),
        "module": module(host, release),
        "library": library(host),
        "dkms": dkms(host),
        "nouveau": nouveau(host),
        "runfile": runfile(host),
        "nvidia_smi": smi,
        "use": use(host, smi),
        "boot": boot(host),
        "docker": docker(host),
        "simulations": [simulation(host, arguments) for arguments in simulate],
    }
    facts["seconds"] = round(time.monotonic() - started, 2)
    return facts


def pci_devices(host):
    """NVIDIA's devices, and other display controllers."""
    found = []
    for path in host.list("/sys/bus/pci/devices/*"):
        value = {
            name: (host.read(f"{path}/{name}") or "").strip().lower().removeprefix("0x")
            for name in ("vendor", "class")
        }
        if value["vendor"] != NVIDIA and not value["class"].startswith("03"):
            continue
        for name in ("device", "subsystem_vendor", "subsystem_device", "revision"):
            value[name] = (host.read(f"{path}/{name}") or "").strip().lower().removeprefix("0x")
        for name in ("current_link_speed", "current_link_width", "max_link_speed",
                     "max_link_width"):  # fmt: skip
            value[name] = (host.read(f"{path}/{name}") or "").strip()
        value["address"] = os.path.basename(path)
        value["driver"] = host.link(f"{path}/driver")
        value["vgpu"] = is_vgpu(host.read(f"{path}/config", 256) or "")
        found.append(value)
    return found


def is_vgpu(config):
    """A virtual GPU carries a vendor-specific capability (9) with the letters VF.

    Source: NVIDIA/gpu-feature-discovery internal/vgpu. Root reads 256 bytes, others 64.
    """
    offset = ord(config[0x34]) if len(config) > 0x34 else 0
    for _ in range(48):
        if offset < 0x40 or offset + 4 >= len(config):
            return False
        if ord(config[offset]) == 9 and config[offset + 3 : offset + 5] == "VF":
            return True
        offset = ord(config[offset + 1])
    return False


def kernel(host, release):
    """The running kernel, and whether a module can be built and loaded for it."""
    # The modules file is absent where the kernel was built without loadable modules.
    loadable = host.read("/proc/modules") is not None
    disabled = (host.read("/proc/sys/kernel/modules_disabled") or "0").strip()
    build = f"/lib/modules/{release}/build"
    return {
        "release": release,
        "modules_loadable": loadable and disabled == "0",
        "module_folder": host.exists(f"/lib/modules/{release}"),
        "headers_installed": host.exists(f"{build}/Makefile")
        or host.exists(f"/usr/src/linux-headers-{release}/Makefile"),
        "installed": sorted(path.rsplit("/", 1)[1] for path in host.list("/lib/modules/*")),
    }


def operating_system(host):
    """Identity of the distribution, and the architecture in dpkg's words."""
    fields = dict(
        line.split("=", 1)
        for line in (host.read("/etc/os-release") or "").splitlines()
        if "=" in line
    )
    value = {key: fields.get(key.upper(), "").strip("\"'") for key in ("id", "version_id")}
    value["codename"] = fields.get("VERSION_CODENAME", "").strip("\"'")
    value["architecture"] = host.output(["dpkg", "--print-architecture"]).strip()
    return value


def virtualization(host):
    """What systemd-detect-virt says about containers and virtual machines."""

    def detect(kind):
        text = host.run(["systemd-detect-virt", f"--{kind}"])["out"].strip()
        return "" if text == "none" else text

    container = detect("container")
    if not container and host.exists("/.dockerenv"):
        container = "docker"
    return {"container": container, "vm": detect("vm")}


def secure_boot(host):
    """State on, off, unknown, or none where the machine was not started by UEFI."""
    if not host.exists("/sys/firmware/efi"):
        state = "none"
    else:
        texts = [host.read(path) for path in host.list("/sys/firmware/efi/efivars/SecureBoot-*")]
        # Four bytes of attributes, then the value.
        values = {text[4] for text in texts if text and len(text) >= 5}
        state = {"\x01": "on", "\x00": "off"}.get(values.pop(), "unknown") if values else "unknown"
    lockdown = re.search(r"\[(\w+)\]", host.read("/sys/kernel/security/lockdown") or "")
    enforce = (host.read("/sys/module/module/parameters/sig_enforce") or "").strip()
    if state == "on" or enforce == "Y" or (lockdown and lockdown.group(1) != "none"):
        signed = "yes"
    elif state in ("off", "none") or (enforce == "N" and lockdown):
        signed = "no"
    else:
        signed = "unknown"
    return {"state": state, "modules_must_be_signed": signed, "mok": mok(host)}


def mok(host):
    """Whether the key that DKMS signs with is enrolled: enrolled, missing or unknown."""
    keys = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub")
    present = [key for key in keys if host.exists(key)]
    if not present:
        return "missing"
    answers = [host.run(["mokutil", "--test-key", key]) for key in present]
    if any("is already enrolled" in answer["out"] for answer in answers):
        return "enrolled"
    return "missing" if any("is not enrolled" in a["out"] for a in answers) else "unknown"


def module(host, release):
    """The loaded module, and the one on disk that the next boot would load."""
    text = host.read("/proc/driver/nvidia/version") or ""
    loaded = re.search(r"NVRM version:.*?\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    version = (host.read("/sys/module/nvidia/version") or "").strip()
    info = next(filter(None, (module_info(host, release, name) for name in MODULES)), {})
    return {
        "loaded": bool(loaded or version),
        "version": loaded.group(1) if loaded else version,
        "flavour": ("open" if "Open Kernel Module" in text else "proprietary") if text else "",
        "disk_version": info.get("version", ""),
        "disk_flavour": flavour_of_license(info.get("license", "")),
        "disk_file": info.get("filename", ""),
        "disk_signer": info.get("signer", ""),
    }


def module_info(host, release, name):
    """Fields of modinfo for a module of one kernel."""
    lines = host.output(["modinfo", "-k", release, name]).splitlines()
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    wanted = ("filename", "version", "license", "signer")
    return {key: value.strip() for key, value in pairs if key in wanted}


def flavour_of_license(text):
    """The flavour that a module's license tells."""
    return {"Dual MIT/GPL": "open", "NVIDIA": "proprietary"}.get(text, "")


def library(host):
    """The version that the user-space library's file name carries."""
    for folder in ("/usr/lib/*-linux-gnu", "/usr/lib/*-linux-gnu/nvidia/*", "/usr/lib64",
                   "/usr/lib"):  # fmt: skip
        for path in host.list(f"{folder}/libnvidia-ml.so.*.*"):
            match = re.search(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$", path)
            if match:
                return {"version": match.group(1), "path": path}
    return {"version": "", "path": ""}


def dkms(host):
    """`dkms status`, both spellings that its versions print."""
    found = []
    for line in host.output(["dkms", "status"]).splitlines():
        match = re.match(r"([\w.-]+)(?:/|, )([^,:]+)(?:, ([^,]+), ([^:]+))?: (.+)", line)
        if match and "nvidia" in match.group(1):
            name, version, release, architecture, state = match.groups()
            found.append({
                "module": name, "version": version, "kernel": release or "",
                "architecture": architecture or "", "state": state.split(" ")[0].strip(),
            })  # fmt: skip
    return found


def nouveau(host):
    """Whether nouveau is loaded, and kept from it."""
    texts = [host.read(path) or "" for folder in ("/etc/modprobe.d", "/usr/lib/modprobe.d",
                                                  "/lib/modprobe.d")
             for path in host.list(f"{folder}/*.conf")]  # fmt: skip
    return {
        "loaded": host.exists("/sys/module/nouveau"),
        "blacklisted": any(re.search(r"^\s*blacklist\s+nouveau\b", t, re.M) for t in texts)
        or "modprobe.blacklist=nouveau" in (host.read("/proc/cmdline") or ""),
    }


def runfile(host):
    """Marks of NVIDIA's .run installer; Debian's packages bring neither."""
    marks = ("/usr/bin/nvidia-uninstall", "/var/log/nvidia-installer.log",
             "/var/lib/nvidia/log")  # fmt: skip
    return {"marks": [path for path in marks if host.exists(path)]}


def nvidia_smi(host):
    """Whether nvidia-smi answers, and with what; a hung one is not asked again."""
    if stuck := [p for p in processes(host) if p["name"] == "nvidia-smi" and p["state"] == "D"]:
        return {"state": HUNG, "code": None, "gpus": [], "pids": [p["pid"] for p in stuck]}
    query = "--query-gpu=index,name,uuid,driver_version"
    done = host.run(["nvidia-smi", query, "--format=csv,noheader"])
    rows = [line.split(", ") for line in done["out"].splitlines() if line.count(", ") == 3]
    return {
        "state": done["state"],
        "code": done["code"],
        "gpus": [dict(zip(("index", "name", "uuid", "driver"), row)) for row in rows],  # noqa: B905
        "pids": [],
    }


def processes(host):
    """NVIDIA's programs that run, with their state."""
    found = []
    for path in host.list("/proc/[0-9]*/comm"):
        name = (host.read(path) or "").strip()
        # Absent when the process ended between the two looks.
        host.files.pop(path, None)
        if name.startswith("nvidia"):
            status = host.read(path.replace("/comm", "/stat")) or ""
            host.files[path] = name
            state = status.rsplit(")", 1)[-1].split()
            found.append({"pid": int(path.split("/")[2]), "name": name,
                          "state": state[0] if state else ""})  # fmt: skip
    host.folders["/proc/[0-9]*/comm"] = []
    return found


def boot(host):
    """This boot, and whether another is asked for."""
    return {
        "id": (host.read("/proc/sys/kernel/random/boot_id") or "").strip(),
        "uptime_seconds": int(float((host.read("/proc/uptime") or "0").split()[0])),
        "reboot_required": host.exists("/run/reboot-required"),
        "reboot_packages": (host.read("/run/reboot-required.pkgs") or "").split(),
    }


def docker(host):
    """Docker installations whose configuration lies elsewhere."""
    return {
        "snap": host.exists("/snap/bin/docker") or host.exists("/var/snap/docker"),
        "rootless": bool(host.list("/run/user/*/docker.sock")),
    }


def main(request):
    """Print the facts, and the recording when asked, as one line of JSON."""
    asked = json.loads(request)
    host = Host()
    if os.path.isdir(SIMULATED_ROOT):
        host.pci_root = SIMULATED_ROOT
    facts = gather_from(host, asked.get("simulate", ()))
    answer = {"facts": facts}
    if asked.get("record"):
        answer["recording"] = host.recording()
    print(json.dumps(answer))  # noqa: T201
