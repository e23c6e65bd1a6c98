"""The first process of a virtual machine's container: network, disks, QEMU, a clean end.

Standard library only. Reads /etc/vm/config.json; the configuration that QEMU really runs with is
/run/vm/running.json.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from . import clock, qemu

CONFIG = Path("/etc/vm/config.json")
RUNNING = Path("/run/vm/running.json")
SEED = "/etc/vm/seed.tar"
DATA = "/disks/data.ext4"
EXTRA = "/disks/extra"

# A guest that is still booting does not hear the power button; so it is pressed again.
_PRESS_EVERY_SECONDS = 5


def say(text: str) -> None:
    """Write into the container's log, between the lines of the guest's console."""
    sys.stderr.write(f"supervisor: {text}\n")
    sys.stderr.flush()


def ip(*arguments: str) -> None:
    """Run `ip ARGUMENTS`."""
    subprocess.run(["ip", *arguments], check=True)


def join_network(mac: str) -> list[str]:
    """Put the guest in the container's place on its network; it has the IP addresses itself."""
    mtu = Path("/sys/class/net/eth0/mtu").read_text().strip()
    ip("link", "add", "bridge", "type", "bridge", "forward_delay", "0")
    ip("tuntap", "add", "dev", "guest", "mode", "tap")
    ip("address", "flush", "dev", "eth0")
    ip("link", "set", "eth0", "down")
    # Not the guest's, which it may have been; the first byte says "locally administered".
    ip("link", "set", "eth0", "address", "fe" + mac[2:])
    for name in ("eth0", "guest", "bridge"):
        # None of them makes itself an address: this container is not on the network, its guest is.
        ip("link", "set", name, "mtu", mtu, "addrgenmode", "none")
        if name != "bridge":
            ip("link", "set", name, "master", "bridge")
        ip("link", "set", name, "up")
    device = f"virtio-net-pci,netdev=net,mac={mac},romfile="
    if mtu != "1500":
        device += f",host_mtu={mtu}"
    return ["-netdev", "tap,id=net,ifname=guest,script=no,downscript=no", "-device", device]


def offer_time(guest_address: str, address: str) -> None:
    """Let the guest ask this container, at a link-local address, what time it is."""
    ip("address", "add", f"{address}/32", "dev", "bridge")
    ip("route", "add", f"{guest_address}/32", "dev", "bridge", "src", address)
    clock.serve(address)


def disks(config: dict[str, Any]) -> list[dict[str, Any]]:
    """The system disk first, then data, the seed and extra disks."""
    raw = {"format": "raw", "options": ["discard=unmap", "detect-zeroes=unmap"]}
    return [
        {
            "file": qemu.SYSTEM_DISK,
            "format": "qcow2",
            "serial": "system",
            "options": raw["options"],
        },
        {"file": DATA, "serial": "data", **raw},
        {"file": SEED, "serial": "seed", "format": "raw", "options": ["readonly=on"]},
        *(
            {"file": f"{EXTRA}/{number}.raw", "serial": f"extra-{number}", **raw}
            for number in range(1, config["extra_disks"] + 1)
        ),
    ]


def prepare(config: dict[str, Any]) -> None:
    """Make what a first start needs: the system disk over the image's, firmware variables."""
    for path in (RUNNING, Path(qemu.QMP_SOCKET), Path(qemu.SYSTEM_DISK)):
        path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in (RUNNING, Path(qemu.QMP_SOCKET)):
        leftover.unlink(missing_ok=True)
    system = Path(qemu.SYSTEM_DISK)
    if not system.exists():
        draft = system.with_suffix(".new")
        backing = ["-b", qemu.BASE_DISK, "-F", "qcow2"]
        make = ["qemu-img", "create", "-q", "-f", "qcow2", *backing, str(draft)]
        subprocess.run(make, check=True)
        draft.replace(system)
    variables = Path(qemu.variables_file(config["secure_boot"]))
    if not variables.exists():
        draft = variables.with_suffix(".new")
        shutil.copyfile(qemu.variables_template(config["secure_boot"]), draft)
        draft.replace(variables)


def qmp(name: str) -> None:
    """Send one command to QEMU; one that cannot be reached is about to end anyway."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(2)
            connection.connect(qemu.QMP_SOCKET)
            connection.recv(4096)
            for word in ("qmp_capabilities", name):
                connection.sendall(json.dumps({"execute": word}).encode())
                connection.recv(4096)
    except OSError as error:
        say(f"{name}: {error}")


def shut_down(process: subprocess.Popen[bytes], deadline_seconds: float) -> None:
    """Press the power button until the guest is off; pull the plug at the deadline."""
    for _ in range(int(deadline_seconds / _PRESS_EVERY_SECONDS)):
        qmp("system_powerdown")
        try:
            process.wait(_PRESS_EVERY_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return
    say("the guest did not shut down; ending it")
    qmp("quit")
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()


def main() -> int:
    """Run the machine until its guest powers off, or the container is told to stop."""
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    config = json.loads(CONFIG.read_text())
    if config["accelerator"] == "kvm" and not os.access("/dev/kvm", os.R_OK | os.W_OK):
        config["accelerator"] = "tcg"
    prepare(config)
    network = join_network(config["mac"])
    offer_time(config["address"], config["clock"])
    process = subprocess.Popen(qemu.command(config, disks(config), network))
    draft = RUNNING.with_suffix(".new")
    draft.write_text(json.dumps(config))
    draft.replace(RUNNING)
    while process.poll() is None:
        if asked.wait(0.2):
            shut_down(process, config["stop_seconds"])
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
