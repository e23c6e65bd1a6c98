"""What is on a disk, on real file systems in files: nothing is made where something may be."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest

from gpuferry.paths import REPOSITORY

pytestmark = pytest.mark.skipif(
    not shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin"), reason="no mkfs.ext4 here"
)
MIB = 1 << 20


@pytest.fixture
def volumes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As on a server, where Ansible puts these files beside its own."""
    own = str(REPOSITORY / "playbooks" / "module_utils")
    monkeypatch.setattr(ansible.module_utils, "__path__", [*ansible.module_utils.__path__, own])
    return importlib.import_module("ansible.module_utils.volumes")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    with path.open("wb") as handle:
        handle.truncate(640 * MIB)
    return path


def made(disk: Path, block_size: int) -> None:
    command = ["/usr/sbin/mkfs.ext4", "-q", "-F", "-m", "0", "-b", str(block_size), str(disk)]
    subprocess.run(command, check=True)


def overwrite(disk: Path, count: int) -> None:
    with disk.open("r+b") as handle:
        handle.write(b"\0" * count)


@pytest.mark.parametrize("block_size", [1024, 2048, 4096])
def test_a_file_system_that_lost_its_superblock_is_not_an_empty_disk(
    volumes: Any, disk: Path, block_size: int
) -> None:
    assert volumes.signature(str(disk))[0] == ""
    made(disk, block_size)
    assert volumes.signature(str(disk))[0] == "ext4"
    overwrite(disk, 2048)
    assert "of a kind that is not known" in volumes.signature(str(disk))[0]


def test_data_without_a_signature_is_not_an_empty_disk(volumes: Any, disk: Path) -> None:
    """As a raw database, or plain dm-crypt."""
    with disk.open("r+b") as handle:
        handle.seek(9000)
        handle.write(b"rows")
    found = volumes.signature(str(disk))[0]
    assert f"dd if=/dev/zero of={disk} bs=1M count=1" in found
    overwrite(disk, MIB)
    assert volumes.signature(str(disk))[0] == ""


@pytest.mark.parametrize(
    ("subsystem", "ran"),
    [
        ("gpuferry-bare", ["luksDump", "mkfs.ext4", "config", "mount"]),
        ("gpuferry-made", ["luksDump", "mount"]),
        # Of before there was this mark, or another's.
        ("(no subsystem)", ["luksDump", "mount"]),
    ],
)
def test_a_file_system_is_made_once_below_a_header(
    volumes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subsystem: str, ran: list[str]
) -> None:
    """Whatever is on the disk: opening needs a device mapper, what is decided after it does not."""
    did: list[str] = []

    def run(*argv: str, **more: Any) -> str:
        did.append(argv[1] if argv[0] == "cryptsetup" else argv[0])
        return f"Label:         gpuferry-v\nSubsystem:     {subsystem}\n"

    monkeypatch.setattr(volumes, "run", run)
    monkeypatch.setattr(volumes, "open_kept", lambda volume: "/dev/x")
    monkeypatch.setattr(volumes, "grow", lambda volume: False)
    volume = {"name": "v", "path": str(tmp_path / "at"), "device": "/dev/x", "scratch": False}
    volumes.open_volume(volume)
    assert did == ran


def test_a_disk_that_cannot_be_read_is_not_empty(volumes: Any, tmp_path: Path) -> None:
    assert volumes.signature(str(tmp_path / "gone"))[0] == "what cannot be read"
