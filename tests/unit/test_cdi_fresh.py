"""When the CDI specification has to be made anew."""

from __future__ import annotations

import json
import runpy

import pytest

from gpuferry.paths import REPOSITORY

FRESH = runpy.run_path(str(REPOSITORY / "roles/container_toolkit/files/is_fresh.py"))
TWO = """GPU 0: NVIDIA L4 (UUID: GPU-aa-1)
GPU 1: NVIDIA L4 (UUID: GPU-bb-2)
"""
MIG = """GPU 0: NVIDIA A100 (UUID: GPU-aa-1)
  MIG 1g.10gb     Device  0: (UUID: MIG-cc-3)
  MIG 1g.10gb     Device  1: (UUID: MIG-dd-4)
GPU 1: NVIDIA A100 (UUID: GPU-bb-2)
"""


def specification(*names: str, version: str = "580.1.2") -> str:
    """As nvidia-ctk writes it: on one line, without blanks."""
    library = {"hostPath": f"/usr/lib/libcuda.so.{version}"}
    document = {"devices": [{"name": n} for n in names], "containerEdits": {"mounts": [library]}}
    return json.dumps(document, separators=(",", ":"))


@pytest.mark.parametrize(
    ("text", "listed", "fresh"),
    [
        (specification("0", "1", "all", "GPU-aa-1", "GPU-bb-2"), TWO, True),
        (specification("0", "all", "GPU-aa-1"), TWO, False),
        (specification("GPU-aa-1", "GPU-bb-2", "GPU-ee-5"), TWO, False),
        (specification("GPU-aa-1", "GPU-bb-2", version="570.1.2"), TWO, False),
        (specification("0", "1", "all"), TWO, False),
        (specification("all"), "", False),
        (specification("0:0", "MIG-cc-3", "MIG-dd-4", "GPU-bb-2"), MIG, True),
        (specification("GPU-aa-1", "GPU-bb-2"), MIG, False),
    ],
)
def test_a_specification_is_fresh_when_it_has_these_gpus_and_this_driver(
    text: str, listed: str, fresh: bool
) -> None:
    assert FRESH["is_fresh"](text, listed, "580.1.2") is fresh
