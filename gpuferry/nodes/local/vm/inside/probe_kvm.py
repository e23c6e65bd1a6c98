"""Whether KVM really boots a guest: prints `boots` or the reason why not. Standard library only.

The file /dev/kvm proves nothing: on some hosts a guest's first instructions already fail.
"""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import sys
import time
from pathlib import Path

from . import qemu

# What the image's own system prints when it is up.
_UP = b"login:"


def probe(deadline_seconds: float) -> str:
    """Boot the image on a throw-away disk; what it says decides."""
    for path in (qemu.QMP_SOCKET, qemu.SYSTEM_DISK):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(qemu.variables_template(False), qemu.variables_file(False))
    config = {"cpus": 1, "memory_mib": 1024, "secure_boot": False, "accelerator": "kvm"}
    disk = {"file": qemu.BASE_DISK, "format": "qcow2", "serial": "system"}
    command = qemu.command(config, [{**disk, "options": ["snapshot=on"]}], [])
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        return watch(process, deadline_seconds)
    finally:
        process.kill()
        process.wait()


def watch(process: subprocess.Popen[bytes], deadline_seconds: float) -> str:
    """Read until the guest is up, QEMU gives up, or the deadline."""
    end, seen = time.monotonic() + deadline_seconds, b""
    assert process.stdout is not None
    output = process.stdout.fileno()
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while (left := end - time.monotonic()) > 0:
            if not selector.select(left):
                break
            chunk = os.read(output, 65536)
            seen += chunk
            if _UP in seen:
                return "boots"
            if b"KVM internal error" in seen:
                return "a guest dies in early boot (KVM internal error)"
            if not chunk:
                last = seen.decode(errors="replace").strip().splitlines()
                return f"QEMU ended: {last[-1] if last else 'without a word'}"
    return f"a guest did not boot within {deadline_seconds:.0f} s"


if __name__ == "__main__":
    sys.stdout.write(probe(float(sys.argv[1])) + "\n")
