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
    assert not volumes.damaged(str(disk))
    made(disk, block_size)
    assert volumes.signature(str(disk))[0] == "ext4"
    overwrite(disk, 4096)
    assert volumes.signature(str(disk))[0] == "", "blkid finds nothing any more"
    assert volumes.damaged(str(disk))


def test_a_kept_volume_that_is_damaged_gets_no_new_file_system(
    volumes: Any, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening and mounting need a device mapper; what is decided between them does not."""
    ran: list[str] = []
    real = volumes.damaged
    monkeypatch.setattr(volumes, "damaged", lambda mapper: real(str(disk)))
    monkeypatch.setattr(volumes, "signature", lambda mapper: ("", ""))
    monkeypatch.setattr(volumes, "open_kept", lambda volume: False)
    monkeypatch.setattr(volumes, "grow", lambda volume: False)
    monkeypatch.setattr(volumes, "run", lambda *argv, **more: ran.append(argv[0]))
    volume = {"name": "v", "path": str(tmp_path / "at"), "device": "/dev/x", "scratch": False}
    made(disk, 4096)
    overwrite(disk, 4096)
    with pytest.raises(volumes.Trouble, match="e2fsck -b 32768 /dev/mapper/gpuferry-v"):
        volumes.open_volume(volume)
    assert ran == []
    with disk.open("r+b") as handle:
        handle.truncate(0)
    volumes.open_volume(volume)
    assert ran == ["mkfs.ext4", "mount"]


def test_a_disk_that_cannot_be_read_is_not_empty(volumes: Any, tmp_path: Path) -> None:
    assert volumes.signature(str(tmp_path / "gone"))[0] == "what cannot be read"
