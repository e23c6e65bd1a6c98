"""MIG layouts: what fits, what is refused, what differs."""

import pytest

from gpuferry.checking.expectations import ExpectedGpu
from gpuferry.checking.gpu.judgement import conclude
from gpuferry.checking.gpu.mig import layout
from gpuferry.driver.mig import problem, profiles_of
from gpuferry.shared import shared
from gpuferry.spec.model import Gpu
from tests.support.surveys import gpu, survey

mig_layout = shared("mig_layout")
A100, H200, RTX_PRO_6000, L4 = "20b2", "2335", "2bb5", "27b8"


@pytest.mark.parametrize(
    ("device", "parts", "says"),
    [
        (A100, [], ""),
        (L4, [], ""),
        (A100, ["7g.80gb"], ""),
        (A100, ["1g.10gb"] * 7, ""),
        (A100, ["1g.10gb"] * 8, "do not fit"),
        (A100, ["3g.40gb", "3g.40gb"], ""),
        (A100, ["4g.40gb", "3g.40gb"], ""),
        (A100, ["3g.40gb", "4g.40gb"], ""),
        (A100, ["4g.40gb", "4g.40gb"], "do not fit"),
        (A100, ["1g.10gb", "2g.20gb", "3g.40gb"], ""),
        (A100, ["3g.40gb", "2g.20gb", "2g.20gb"], ""),
        (A100, ["3g.40gb", "2g.20gb", "2g.20gb", "1g.10gb"], "do not fit"),
        (A100, ["2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb"], ""),
        (A100, ["1g.20gb"] * 4, ""),
        (A100, ["1g.20gb"] * 5, "do not fit"),
        (A100, ["4g.40gb", "1g.20gb", "1g.20gb"], ""),
        (A100, ["1g.10gb+me", "1g.10gb"], ""),
        (A100, ["1g.10gb+me", "1g.10gb+me"], "do not fit"),
        (A100, ["3g.20gb"], "no MIG profile '3g.20gb'; accepted: 1g.10gb"),
        (H200, ["3g.71gb", "3g.71gb"], ""),
        (H200, ["3g.40gb"], "accepted: 1g.18gb"),
        (RTX_PRO_6000, ["2g.48gb", "1g.24gb", "1g.24gb"], ""),
        (RTX_PRO_6000, ["4g.96gb", "1g.24gb"], "do not fit"),
        (L4, ["1g.10gb"], "cannot be cut"),
        ("ffff", ["1g.10gb"], "cannot be cut"),
    ],
)
def test_a_layout_that_cannot_be_had_is_refused(device, parts, says):
    why = problem(device, parts)
    assert says in why if says else why == ""


def test_parts_stand_beside_each_other_largest_first():
    possible = {name: p.model_dump() for name, p in profiles_of(A100).items()}
    placed = mig_layout.place(["1g.10gb", "2g.20gb", "3g.40gb"], possible)
    assert placed == [("3g.40gb", 0), ("2g.20gb", 4), ("1g.10gb", 6)]
    # 2g at 0 would leave no room for the second 3g: both have to be placed before.
    assert mig_layout.place(["3g.40gb", "3g.40gb"], possible) == [("3g.40gb", 0), ("3g.40gb", 4)]


def test_one_list_stands_for_all_gpus_and_those_not_named_stay_whole():
    layouts = {
        declared: Gpu(model="A100-80", count=2, mig=value).mig_layout
        for declared, value in (("all", ["7g.80gb"]), ("one", {1: ["7g.80gb"]}), ("off", []))
    }
    assert layouts == {
        "all": {0: ["7g.80gb"], 1: ["7g.80gb"]},
        "one": {0: [], 1: ["7g.80gb"]},
        "off": {0: [], 1: []},
    }
    assert Gpu(model="A100-80", count=2).mig_layout is None


# As nvidia-smi 550 prints it.
LISTED = """GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)
  MIG 3g.40gb     Device  0: (UUID: MIG-1)
  MIG 1c.3g.40gb  Device  1: (UUID: MIG-2)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-2)
"""
PROFILES = """| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                              Free/Total   GiB              CE    JPEG  OFA  |
|=============================================================================|
|   0  MIG 1g.10gb       19     7/7        9.50       No     14     0     0   |
|                                                             1     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 1g.10gb+me    20     0/1        9.50       No     14     1     0   |
|                                                             1     1     1   |
|   0  MIG 7g.80gb        0     1/1        78.75      No     98     5     0   |
"""
PLACES = """GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 20 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID  0 Placement : {0}:8
"""


def test_what_nvidia_smi_prints_is_understood():
    assert mig_layout.listed(LISTED) == {0: ["3g.40gb", "1c.3g.40gb"], 1: []}
    modes = "0, Enabled, Enabled\n1, Disabled, Enabled\n2, [N/A], [N/A]\n"
    assert mig_layout.modes(modes) == {0: (True, True), 1: (False, True)}
    found = mig_layout.possible(PROFILES, PLACES)
    assert found["1g.10gb+me"] == {
        "id": "20",
        "starts": [0, 1, 2, 3, 4, 5, 6],
        "size": 1,
        "most": 1,
    }
    assert found["7g.80gb"] == {"id": "0", "starts": [0], "size": 8, "most": 1}


@pytest.mark.parametrize(
    ("wanted", "mode", "parts", "differs"),
    [
        (["1g.10gb", "3g.40gb"], (True, True), ["3g.40gb", "1g.10gb"], False),
        (["3g.40gb"], (True, True), ["3g.40gb", "1g.10gb"], True),
        (["3g.40gb"], (True, True), ["1c.3g.40gb"], True),
        (["3g.40gb"], (False, True), [], True),
        (["3g.40gb"], (True, False), ["3g.40gb"], True),
        (["3g.40gb"], None, [], True),
        ([], (False, False), [], False),
        ([], (True, True), [], True),
        ([], (False, True), [], False),
        ([], None, [], False),
    ],
)
def test_a_gpu_differs_by_mode_or_parts(wanted, mode, parts, differs):
    assert mig_layout.differs(wanted, mode, parts) is differs


CUT = {"mig_mode": [1, 1], "mig_instances": [["1g.10gb", "MIG-2"], ["3g.40gb", "MIG-1"]]}


@pytest.mark.parametrize(
    ("declared", "values", "status", "says"),
    [
        ({0: ["3g.40gb", "1g.10gb"]}, CUT, "pass", "GPU 0: 1g.10gb + 3g.40gb"),
        ({0: ["3g.40gb"]}, CUT, "fail", "GPU 0: 1g.10gb + 3g.40gb"),
        ({0: []}, CUT, "fail", "1g.10gb"),
        ({0: []}, {}, "pass", "GPU 0: whole"),
        ({0: []}, {"mig_mode": {3}, "mig_instances": {3}}, "pass", "whole"),
        ({0: ["3g.40gb"]}, {"mig_mode": {3}}, "fail", "whole"),
        ({0: ["3g.40gb"]}, {"mig_mode": {999}}, "not_measured", "unknown error"),
        ({0: ["3g.40gb"]}, {"mig_mode": [0, 1]}, "not_measured", "next reset"),
        ({0: ["3g.40gb"]}, {"mig_mode": [1, 1]}, "fail", "MIG on, no instance"),
        (None, {"mig_mode": [1, 1]}, "fail", "MIG on, no instance"),
        (None, CUT, "pass", "3g.40gb"),
        (None, {}, "pass", "whole"),
    ],
)
def test_the_check_compares_instances_with_what_is_declared(declared, values, status, says):
    seen = survey(gpu(0, **values))
    wanted = ExpectedGpu(model="A100-80", count=1, mig=declared)
    judgement = conclude(seen, layout(seen, wanted))
    assert (judgement.status, says in judgement.measured) == (status, True), judgement


def test_a_gpu_in_use_or_without_mig_is_not_cut(monkeypatch):
    said = {"compute": "4711, python3\n"}
    monkeypatch.setattr(mig_layout, "smi", lambda *words, **_: said["compute"])
    with pytest.raises(mig_layout.Refused, match=r"in use \(4711, python3\)"):
        mig_layout._cut(0, ["7g.80gb"], (False, False))
    with pytest.raises(mig_layout.Refused, match="GPU 1 cannot be cut"):
        mig_layout._cut(1, ["7g.80gb"], None)
