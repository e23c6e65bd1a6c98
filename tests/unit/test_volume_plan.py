"""Which disk an encrypted volume may take, and why not, from facts."""

from __future__ import annotations

from typing import Any

import pytest

from gpuferry.errors import SpecError
from gpuferry.shared import shared
from gpuferry.spec import parse_spec

plan = shared("volume_plan")
GIB = 1 << 30
DISK = "/dev/disk/by-id/virtio-extra-1"
EMPTY = {"path": "/dev/vdb", "links": [DISK], "size": GIB, "read_only": False}
EMPTY |= {"signature": "", "label": "", "users": []}
WISH = {"name": "vault", "path": "/vault", "device": DISK, "scratch": False}
FOLDER = {**WISH, "device": ""}
SCRATCH = {**WISH, "scratch": True}
FACTS: dict[str, Any] = {
    "container": False,
    "dm_crypt": True,
    "fuse": True,
    "disks": [EMPTY],
    "mounted": {"/": "/dev/vda1"},
    "filled": [],
    "made": [],
}


def facts(**changes: Any) -> dict[str, Any]:
    return {**FACTS, **changes}


def disk(**changes: Any) -> dict[str, Any]:
    return facts(disks=[{**EMPTY, **changes}])


OURS = {"signature": "crypto_LUKS", "label": "gpuferry-vault"}
OPEN = {**OURS, "users": ["holder gpuferry-vault"]}


@pytest.mark.parametrize(
    ("wish", "known", "action", "how"),
    [
        (WISH, FACTS, "create", "luks2"),
        (WISH, disk(**OURS), "open", "luks2"),
        (WISH, disk(**OPEN), "open", "luks2"),
        (
            WISH,
            {**disk(**OPEN), "mounted": {"/vault": "/dev/mapper/gpuferry-vault"}},
            "keep",
            "luks2",
        ),
        (SCRATCH, FACTS, "create", "luks2"),
        (SCRATCH, disk(**{**OURS, "label": "gpuferry-scratch-vault"}), "open", "luks2"),
        (FOLDER, FACTS, "create", "gocryptfs"),
        (FOLDER, facts(container=True, dm_crypt=False, disks=[]), "create", "gocryptfs"),
        (FOLDER, facts(made=["vault"]), "open", "gocryptfs"),
        (FOLDER, facts(mounted={"/vault": "/data/.gpuferry-vault/files"}), "keep", "gocryptfs"),
    ],
)
def test_what_is_done(wish: dict[str, Any], known: dict[str, Any], action: str, how: str) -> None:
    decision = plan.decide(wish, known)
    assert (decision["action"], decision["how"]) == (action, how), decision["why"]


@pytest.mark.parametrize(
    ("wish", "known", "why"),
    [
        (WISH, facts(container=True), "a container has no disks"),
        (WISH, facts(dm_crypt=False), "no dm-crypt"),
        (WISH, facts(disks=[]), "there is no disk .*free disks: none"),
        (WISH, facts(disks=[{**EMPTY, "links": []}]), "free disks: /dev/vdb"),
        (WISH, disk(signature="ext4"), "it holds ext4"),
        (WISH, disk(signature="gpt"), "it holds gpt"),
        (WISH, disk(signature="linux_raid_member", users=["holder md0"]), "linux_raid_member"),
        (WISH, disk(signature="LVM2_member", users=["holder vg-root"]), "holder vg-root"),
        (WISH, disk(users=["partition vdb1"]), "partition vdb1"),
        (WISH, disk(users=["mounted at /"]), "mounted at /"),
        (WISH, disk(users=["swap"]), "in use: swap"),
        (WISH, disk(read_only=True), "read-only"),
        (WISH, disk(size=1 << 20), "1 MiB, less than 64"),
        # Somebody else's header, and one of a scratch volume whose data nobody can have.
        (WISH, disk(signature="crypto_LUKS"), "it holds crypto_LUKS"),
        (WISH, disk(**{**OURS, "label": "gpuferry-scratch-vault"}), "it holds crypto_LUKS"),
        # A kept volume is never blanked, whatever is declared now.
        (SCRATCH, disk(**OURS), "it holds crypto_LUKS"),
        (WISH, disk(**{**OURS, "users": ["holder other"]}), "in use: holder other"),
        (WISH, facts(filled=["/vault"]), "has files in it"),
        (WISH, facts(mounted={"/vault": "/dev/vdc"}), "mount point of something else"),
        (FOLDER, facts(fuse=False), "no /dev/fuse"),
        (FOLDER, facts(filled=["/vault"]), "has files in it"),
    ],
)
def test_what_is_refused_says_why(wish: dict[str, Any], known: dict[str, Any], why: str) -> None:
    import re

    decision = plan.decide(wish, known)
    assert decision["action"] == "refuse"
    assert re.search(why, decision["why"]), decision["why"]


VOLUME = {"name": "vault", "path": "/vault"}


@pytest.mark.parametrize(
    ("volumes", "says"),
    [
        ([{**VOLUME, "path": "/etc/x"}], "outside /bin"),
        ([{**VOLUME, "path": "vault"}], "absolute path"),
        ([{**VOLUME, "path": "/vault/../etc"}], "cannot be a volume's path"),
        ([{**VOLUME, "device": "/dev/sdb"}], "change from boot to boot"),
        ([{**VOLUME, "scratch": True}], "scratch needs a device"),
        ([VOLUME, {**VOLUME, "name": "other"}], "used 2 times"),
        ([{**VOLUME, "device": DISK}], "a container has no disks of its own"),
    ],
)
def test_what_the_stack_file_cannot_mean(volumes: list[dict[str, Any]], says: str) -> None:
    servers = [{"name": "gpu-1", "encrypted_volumes": volumes}]
    with pytest.raises(SpecError, match=says):
        parse_spec({"gpuferry:servers": servers}, "Pulumi.x.yaml")
