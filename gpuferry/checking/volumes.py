"""Judge what a server says about its encrypted volumes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuferry.checking.expectations import ExpectedVolume
from gpuferry.checking.recorder import Answer

VERIFY = "python3 -B /usr/local/lib/gpuferry/volumes/main.py verify"
# cryptsetup's default cipher; another one was not made here.
KINDS = {True: "luks2, aes-xts-plain64", False: "gocryptfs"}


def judge(expected: Sequence[ExpectedVolume], said: dict[str, Any]) -> Answer:
    """`said`: `volumes` (name to state) and `in_clear` (mount points that nothing encrypts)."""
    states = said["volumes"]
    wrong = [
        f"{volume.path}: {states.get(volume.name, 'not made')}"
        for volume in expected
        if states.get(volume.name) != KINDS[bool(volume.device)]
    ]
    clear = ", ".join(said["in_clear"]) or "no disk's file system"
    good = ", ".join(f"{volume.path} ({states.get(volume.name)})" for volume in expected)
    return Answer(
        "fail" if wrong else "pass",
        "; ".join(wrong) or good,
        "mounted and encrypted: " + ", ".join(volume.path for volume in expected),
        f"in clear, as not declared otherwise: {clear}",
    )
