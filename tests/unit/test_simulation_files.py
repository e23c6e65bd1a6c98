"""What a server with simulated GPUs is given."""

from __future__ import annotations

import json

import pytest

from gpuferry.errors import SpecError
from gpuferry.simulation import node_files, profiles
from gpuferry.simulation.compiled import gpu_uuid
from gpuferry.simulation.readings import READINGS

DEVICES = "/var/lib/gpusim/root/sys/bus/pci/devices"


@pytest.mark.parametrize(
    ("written", "model"),
    [
        ("L4", "L4"),
        ("l4", "L4"),
        ("NVIDIA L4", "L4"),
        ("Tesla T4", "T4"),
        ("A100-80", "A100-80"),
        ("a100 80gb", "A100-80"),
        ("RTX 4090", "RTX 4090"),
        ("rtx-4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("RTX PRO 6000", "RTX PRO 6000"),
        ("NVIDIA H100 80GB HBM3", "H100"),
    ],
)
def test_a_model_is_found_by_its_names(written: str, model: str) -> None:
    assert profiles.find(written).model == model


@pytest.mark.parametrize("written", ["L40", "L", "4", "A100", "RTX", "H1000", "GH200", "", "6000"])
def test_a_part_of_a_name_is_no_name(written: str) -> None:
    with pytest.raises(SpecError, match=r"cannot be simulated; accepted: A100-80, .*L4, L40S"):
        profiles.find(written)


def test_all_models_of_the_issue_are_there() -> None:
    names = ["T4", "V100", "A100-80", "H100", "H200", "L4", "L40S", "B200"]
    assert set(profiles.profiles()) == {*names, "RTX 4090", "RTX 5090", "RTX PRO 6000"}


@pytest.mark.parametrize("profile", profiles.profiles().values(), ids=lambda p: p.model)
def test_a_profile_is_plausible(profile: profiles.Profile) -> None:
    r = profile.readings
    assert r["power_idle"] < r["power_load"] <= r["power_limit_default"] <= r["power_limit_max"]
    assert r["power_limit_min"] <= r["power_limit_default"]
    assert r["temperature_idle"] < r["temperature_load"] < r["temperature_gpu_max"]
    assert r["temperature_gpu_max"] < r["temperature_slowdown"] < r["temperature_shutdown"]
    assert r["memory_reserved"] < r["memory_total"] / 20
    assert r["cores"] % r["multiprocessors"] == 0
    assert r["clock_sm_idle"] < r["clock_sm_max"]
    assert all(value <= READINGS[name].most for name, value in r.items())


def test_profiles_differ_in_everything_that_tells_them_apart() -> None:
    all_profiles = list(profiles.profiles().values())
    for field in ("pci_device", "pci_subsystem", "vbios", "name"):
        assert len({getattr(p, field) for p in all_profiles}) == len(all_profiles), field
    assert len({p.readings["memory_total"] for p in all_profiles}) == len(all_profiles)


def test_a_server_gets_the_scenario_in_both_forms_and_its_hardware() -> None:
    made = node_files("gpu-1", "L4", 2, "550.163.01")
    source = json.loads(made.files["/var/lib/gpusim/scenario.json"])
    assert source == {
        "profile": "L4",
        "count": 2,
        "driver_version": "550.163.01",
        "cuda_version": "12.4",
        "seed": "gpu-1",
    }
    text = made.files["/var/lib/gpusim/scenario"].decode()
    assert text.startswith("gpusim-scenario 1\n")
    assert text.endswith("\nend\n")
    assert f"text uuid {gpu_uuid('gpu-1', 1)}" in text
    read = {
        name: made.files[f"{DEVICES}/0000:01:00.0/{name}"]
        for name in ("vendor", "device", "class", "current_link_speed", "max_link_width")
    }
    assert read == {
        "vendor": b"0x10de\n",
        "device": b"0x27b8\n",
        "class": b"0x030200\n",
        "current_link_speed": b"16.0 GT/s PCIe\n",
        "max_link_width": b"16\n",
    }
    assert made.links[f"{DEVICES}/0000:02:00.0/driver"].endswith("drivers/nvidia")


def test_the_same_server_gets_the_same_files_and_another_one_other_gpus() -> None:
    first, again = (node_files("gpu-1", "H100", 8, "550.163.01") for _ in range(2))
    assert first == again
    assert gpu_uuid("gpu-1", 0) != gpu_uuid("gpu-2", 0) != gpu_uuid("gpu-2", 1)


def of_class(made: dict[str, bytes], kind: bytes) -> list[str]:
    return [path.split("/")[-2] for path, data in made.items() if data == kind + b"\n"]


@pytest.mark.parametrize(
    ("model", "count", "switches", "device"),
    [("H100", 8, 4, b"0x22a3\n"), ("A100-80", 8, 6, b"0x1af1\n"), ("H100", 4, 0, b""),
     ("L4", 8, 0, b""), ("B200", 8, 0, b"")],
)  # fmt: skip
def test_only_a_whole_board_has_nvswitches(
    model: str, count: int, switches: int, device: bytes
) -> None:
    made = node_files("a", model, count, "570.0.1" if model == "B200" else "550.1.1").files
    found = of_class(made, b"0x068000")
    assert len(found) == switches
    assert all(made[f"{DEVICES}/{slot}/device"] == device for slot in found)
    assert len(of_class(made, b"0x060400")) == count


def test_the_driver_that_is_bound_is_a_choice() -> None:
    assert node_files("a", "L4", 1, "550.1", driver=None).links == {}
    (link,) = node_files("a", "L4", 1, "550.1", driver="nouveau").links.values()
    assert link.endswith("/nouveau")


@pytest.mark.parametrize(
    ("model", "count", "version", "words"),
    [
        ("L5", 1, "550.1", "accepted: "),
        ("L4", 0, "550.1", "accepted: 1 to 16"),
        ("L4", 17, "550.1", "accepted: 1 to 16"),
        ("L4", 1, "999.1", "branches: 520, 525"),
        ("L4", 1, "550", "driver_version '550' is not possible"),
    ],
)
def test_what_cannot_be_is_refused(model: str, count: int, version: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        node_files("a", model, count, version)
