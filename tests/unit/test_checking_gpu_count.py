"""GPUs counted three ways, compared with the declared model by id and by whole words."""

import pytest

from gpuferry.checking.expectations import ExpectedGpu
from gpuferry.checking.gpu.count import count, model_differs
from gpuferry.driver.facts import PciDevice
from tests.support.surveys import gpu, lost, survey

L4 = [gpu(0), gpu(1)]


@pytest.mark.parametrize(
    ("found", "declared", "status", "words"),
    [
        (survey(*L4), ("L4", 2), "pass", "2 on PCI, 2 answer NVML"),
        (survey(*L4), ("L4", 4), "fail", "2 on PCI, 2 answer NVML"),
        (survey(*L4, on_pci=3), ("L4", 3), "fail", "0000:03:00.0 is not in NVML (driver: nvidia)"),
        (survey(*L4, on_pci=3), ("L4", 2), "fail", "3 on PCI"),
        (survey(*L4, on_pci=1), ("L4", 2), "fail", "1 on PCI"),
        (survey(gpu(0), lost()), ("L4", 2), "fail", "GPU 1 (0000:02:00.0): nvmlDeviceGetHandle"),
        (survey(*L4), ("L40", 2), "fail", "2 x NVIDIA L4 instead of L40"),
        (survey(*L4, device="27b0"), ("L4", 2), "pass", "2 on PCI"),  # an id that no row knows
        (survey(), ("L4", 2), "fail", "0 on PCI, 0 answer NVML; NVML lists no GPU"),
        (survey(), None, "fail", "0 on PCI"),
        (
            survey(
                gpu(0),
                facts={
                    "pci": [
                        {"address": "0000:01:00.0", "device": "27b8", "driver": "nvidia"},
                        {"address": "0000:02:00.0", "device": "27b8", "driver": "vfio-pci"},
                    ]
                },
            ),
            ("L4", 1),
            "pass",
            "1 on PCI",
        ),
        (survey(*L4, facts={"simulated": True}), ("L4", 2), "pass", "(simulated GPUs)"),
    ],
)
def test_all_counts_have_to_agree(found, declared, status, words):
    expected = ExpectedGpu(model=declared[0], count=declared[1]) if declared else None
    judgement = count(found, expected)
    assert judgement.status == status
    assert words in judgement.measured


def test_the_evidence_names_addresses_and_models():
    evidence = count(survey(gpu(0), lost()), ExpectedGpu(model="L4", count=2)).evidence
    assert evidence == "0000:01:00.0 NVIDIA L4, 0000:02:00.0 L4"


@pytest.mark.parametrize(
    ("device", "name", "declared", "differs"),
    [
        ("27b8", "NVIDIA L4", "L4", False),
        ("27b8", "NVIDIA L4 (simulated)", "NVIDIA L4", False),
        ("26b5", "NVIDIA L40", "L4", True),
        ("26b9", "NVIDIA L40S", "L40", True),
        ("20b2", "NVIDIA A100-SXM4-80GB", "A100", False),
        ("20b2", "NVIDIA A100-SXM4-80GB", "A100 SXM 80GB", False),
        ("20b2", "NVIDIA A100-SXM4-80GB", "A100 SXM 40GB", True),
        ("20b2", "NVIDIA A100-SXM4-80GB", "A100-80", False),
        ("20b0", "NVIDIA A100-SXM4-40GB", "A100-80", True),
        ("20b2", "NVIDIA A100-SXM4-80GB", "A10", True),
        ("2330", "NVIDIA H100 80GB HBM3", "H100", False),
        ("2335", "NVIDIA H200", "H100", True),
        # Ids that no row knows: the name decides.
        ("ffff", "NVIDIA GeForce RTX 4090", "RTX 4090", False),
        ("ffff", "NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090", True),
        ("ffff", "NVIDIA Something New", "Something New", False),
        ("ffff", "NVIDIA Something New", "Something Newer", True),
        ("27b8", "", "L4", False),
    ],
)
def test_a_model_is_the_declared_one_by_whole_words(device, name, declared, differs):
    assert model_differs(PciDevice(address="0", device=device), name, declared) is differs
