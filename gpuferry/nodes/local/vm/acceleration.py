"""Whether virtual machines run on KVM or are emulated; found out by booting one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from gpuferry.errors import StepFailed
from gpuferry.nodes.local.docker import docker
from gpuferry.nodes.local.vm import image
from gpuferry.paths import cache_dir

DEVICE = Path("/dev/kvm")
# A guest under KVM is up in about 10 s; emulation takes over three times as long.
_DEADLINE_SECONDS = 45


@dataclass(frozen=True)
class Acceleration:
    """What virtual machines run on here, and why."""

    accelerator: Literal["kvm", "tcg"]
    reason: str

    @property
    def words(self) -> str:
        """For people."""
        name = "KVM" if self.accelerator == "kvm" else "software emulation, several times slower"
        return f"{name} ({self.reason})"


def known(device: Path = DEVICE) -> Acceleration | None:
    """What was found since this machine's last boot; None when nobody has tried yet."""
    if not device.exists():
        return Acceleration("tcg", f"there is no {device}")
    try:
        found = json.loads(_record().read_text())
        if found.pop("boot_id") == _boot_id():
            return Acceleration(**found)
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return None


def ensure(tag: str, say: Callable[[str], None]) -> Acceleration:
    """Boot a short guest from the image `tag`, once per boot of this machine."""
    found = known()
    if found is None:
        say(f"trying whether KVM works here, once (up to {_DEADLINE_SECONDS} s)")
        try:
            found = judge(_probe(tag))
        except StepFailed as error:  # not a finding, so it is tried again next time
            return Acceleration("tcg", f"KVM could not be tried: {error}")
        draft = _record().with_suffix(f".{os.getpid()}.tmp")
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps({**asdict(found), "boot_id": _boot_id()}))
        draft.replace(_record())
        say(f"virtual machines run on {found.words}")
    return found


def judge(answer: str) -> Acceleration:
    """What the probe's answer means."""
    if answer == "boots":
        return Acceleration("kvm", "a probe guest booted")
    return Acceleration("tcg", f"{DEVICE} is there, but {answer}")


def _probe(tag: str) -> str:
    said = docker(
        *("run", "--rm", "--network", "none", "--device", str(DEVICE)),
        *("-v", f"{image.INSIDE}:/opt/vm:ro", "--workdir", "/opt", tag),
        *("python3", "-B", "-m", "vm.probe_kvm", str(_DEADLINE_SECONDS)),
        timeout_seconds=_DEADLINE_SECONDS + 60,
    )
    return said.strip()


def _record() -> Path:
    return cache_dir() / "kvm.json"


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
