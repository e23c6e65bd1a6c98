"""The frozen set: who belongs to it, what it is told to apt and its helpers."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

from gpuferry.paths import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "playbooks/module_utils"))
import freeze

FAMILIES = yaml.safe_load(Path(REPOSITORY / "roles/freeze/defaults/main.yml").read_text())[
    "freeze_families"
]


@pytest.mark.parametrize(
    ("package", "belongs"),
    [
        ("nvidia-smi", True),
        ("nvidia-kernel-dkms", True),
        ("nvidia-driver-580-server", True),
        ("libnvidia-ml1", True),
        ("libnvidia-compute-580", True),
        ("libnvidia-container1", True),
        ("nvidia-container-toolkit", True),
        ("nvidia-fabricmanager-580", True),
        ("firmware-nvidia-gsp", True),
        ("cuda-toolkit-12-9", True),
        ("cuda-drivers", True),
        ("libcuda1", True),
        ("libcudart12", True),
        ("libcublas12", True),
        ("libcudnn9-cuda-12", True),
        ("libnvrtc12", True),
        ("libnvjitlink12", True),
        ("libnccl2", True),
        ("linux-image-6.12.48+deb13-cloud-amd64", True),
        ("linux-image-amd64", True),
        ("linux-headers-6.12.48+deb13-amd64", True),
        ("linux-modules-nvidia-580-server-6.8.0-79-generic", True),
        ("docker.io", True),
        ("docker-ce", True),
        ("docker-cli", True),
        ("containerd.io", True),
        ("runc", True),
        ("libcups2", False),
        ("libcurl4", False),
        ("libnvme1", False),
        ("linux-libc-dev", False),
        ("linux-base", False),
        ("runcmd", False),
        ("openssh-server", False),
        ("python3-docker", False),
    ],
)
def test_the_families_hold_the_gpu_stack_and_nothing_else(package: str, belongs: bool) -> None:
    assert bool(freeze.members(FAMILIES, {package: "1"})) is belongs


@pytest.mark.parametrize(
    ("frozen", "present", "renew", "wanted"),
    [
        ({}, {"a": "1"}, False, {"a": "1"}),
        ({"a": "1"}, {"a": "1", "b": "1"}, False, {"a": "1", "b": "1"}),
        ({"a": "1"}, {"a": "2"}, False, {"a": "1"}),
        ({"a": "1"}, {}, False, {"a": "1"}),
        ({"a": "1"}, {"a": "2"}, True, {"a": "2"}),
        ({"a": "1", "b": "1"}, {"a": "2"}, True, {"a": "2"}),
    ],
)
def test_what_moved_by_itself_stays_recorded_as_it_was(
    frozen: dict[str, str], present: dict[str, str], renew: bool, wanted: dict[str, str]
) -> None:
    assert freeze.record(frozen, present, renew) == wanted


def test_each_kind_of_move_is_named() -> None:
    said = freeze.moved({"a": "1", "b": "1", "c": "1"}, {"a": "2", "b": "1", "d": "4"})
    assert said == ["a is 2, frozen at 1", "c 1 is gone", "d 4 is not in the set"]


def test_the_pin_never_downgrades() -> None:
    text = freeze.preferences({"docker.io": "26.1.5+dfsg1-9+b9"})
    assert "Package: docker.io\nPin: version 26.1.5+dfsg1-9+b9\nPin-Priority: 999\n" in text


def test_needrestart_is_given_perl_it_can_read() -> None:
    text = freeze.needrestart(["nvidia-persistenced"])
    assert re.search(r"^\$nrconf\{override_rc\}->\{qr\(\^nvidia\\-persistenced", text, re.M)
