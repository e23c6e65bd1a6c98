"""QEMU's command line for one virtual machine. Runs in the container: standard library only."""

from __future__ import annotations

from typing import Any

QMP_SOCKET = "/run/vm/qmp.sock"
BASE_DISK = "/image/system.qcow2"
SYSTEM_DISK = "/vm/system.qcow2"
_FIRMWARE = "/usr/share/OVMF"

# QEMU's default translation cache is an eighth of the host's memory.
_TRANSLATION_CACHE_MIB = 256
# "max" emulates features on which Debian's kernel panics in early boot (measured, QEMU 7.2).
_EMULATED_CPU = "Nehalem"


def command(config: dict[str, Any], disks: list[dict[str, Any]], network: list[str]) -> list[str]:
    """The whole command.

    `config` has cpus, memory_mib, secure_boot and accelerator (kvm or tcg); each disk has file,
    format, serial (what /dev/disk/by-id calls it) and options; `network` are QEMU's own options.
    """
    return [
        *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"),
        *_processor(config),
        *("-m", f"{config['memory_mib']}M"),
        *_firmware(config["secure_boot"]),
        *("-device", "virtio-rng-pci"),
        *(part for index, disk in enumerate(disks) for part in _disk(index, disk)),
        *network,
        # The console is what the container prints, so `docker logs` shows it.
        *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        *("-qmp", f"unix:{QMP_SOCKET},server=on,wait=off"),
    ]


def variables_file(secure_boot: bool) -> str:
    """The firmware's variables; those for secure boot hold Microsoft's keys."""
    return f"/vm/variables-{'ms' if secure_boot else 'plain'}.fd"


def variables_template(secure_boot: bool) -> str:
    """What the firmware's variables start from."""
    return f"{_FIRMWARE}/OVMF_VARS_4M{'.ms' if secure_boot else ''}.fd"


def _processor(config: dict[str, Any]) -> list[str]:
    if config["accelerator"] == "kvm":
        accelerator, model = "kvm", "host"
    else:
        accelerator, model = f"tcg,thread=multi,tb-size={_TRANSLATION_CACHE_MIB}", _EMULATED_CPU
    return ["-accel", accelerator, "-cpu", model, "-smp", str(config["cpus"])]


def _firmware(secure_boot: bool) -> list[str]:
    code = f"{_FIRMWARE}/OVMF_CODE_4M{'.secboot' if secure_boot else ''}.fd"
    flash = "if=pflash,format=raw"
    arguments = ["-machine", f"q35,smm={'on' if secure_boot else 'off'},vmport=off"]
    if secure_boot:
        # Only code in system management mode may write the variables, or the guest could.
        arguments += ["-global", "driver=cfi.pflash01,property=secure,value=on"]
    return [
        *arguments,
        *("-drive", f"{flash},unit=0,readonly=on,file={code}"),
        *("-drive", f"{flash},unit=1,file={variables_file(secure_boot)}"),
    ]


def _disk(index: int, disk: dict[str, Any]) -> list[str]:
    drive = f"if=none,id=disk{index},file={disk['file']},format={disk['format']}"
    device = f"virtio-blk-pci,drive=disk{index},serial={disk['serial']}"
    if index == 0:
        device += ",bootindex=0"
    return ["-drive", ",".join([drive, *disk.get("options", [])]), "-device", device]
