"""Which failing checks count against an upgrade, and which were there before."""

from __future__ import annotations

import pytest

from gpuferry.operate import upgrade_judgement as judgement
from gpuferry.verdict import Verdict


def seen(**statuses: str) -> list[Verdict]:
    """`gpu__ecc="fail"` is the check gpu.ecc."""
    return [
        Verdict.model_validate({
            "id": name.replace("__", "."), "server": "gpu-1", "status": status,
            "measured": f"{name} was seen", "expected": "",
        })
        for name, status in statuses.items()
    ]  # fmt: skip


def test_what_fails_before_is_remembered_but_not_what_an_upgrade_is_there_to_set() -> None:
    before = seen(
        gpu__ecc="fail", gpu__xid="refused", gpu__count="pass", docker__runs="fail",
        gpu__power="not_measured", nvidia_driver__answers="fail", nvidia_driver__versions="fail",
        nvidia_driver__module_for_kernels="fail", checks__completed="fail",
        server__reachable="fail", freeze__members="fail",
    )  # fmt: skip
    assert judgement.baseline(before) == [
        "docker.runs", "gpu.ecc", "gpu.xid", "nvidia_driver.answers",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "good"),
    [
        ({}, {"gpu__count": "pass"}, True),
        ({"gpu__ecc": "fail"}, {"gpu__ecc": "fail", "gpu__count": "pass"}, True),
        ({"gpu__ecc": "fail"}, {"gpu__ecc": "pass"}, True),
        ({"gpu__ecc": "fail"}, {"gpu__ecc": "fail", "gpu__count": "fail"}, False),
        ({"gpu__count": "pass"}, {"gpu__ecc": "fail", "gpu__count": "pass"}, False),
        # Nothing passed: nobody knows.
        ({}, {}, False),
        ({}, {"gpu__ecc": "not_measured"}, False),
        ({"gpu__ecc": "fail"}, {"gpu__ecc": "fail"}, False),
        # An upgrade is there to set it, and a server out of reach is no known fault.
        ({"nvidia_driver__versions": "fail"},
         {"nvidia_driver__versions": "fail", "gpu__count": "pass"}, False),
        ({"checks__completed": "fail"}, {"checks__completed": "fail", "gpu__count": "pass"}, False),
    ],
)  # fmt: skip
def test_only_what_fails_anew_is_the_upgrades(
    before: dict[str, str], after: dict[str, str], good: bool
) -> None:
    known = judgement.baseline(seen(**before))
    assert judgement.good(seen(**after), known) is good


@pytest.mark.parametrize(
    ("after", "accepted"),
    [
        ({"gpu__ecc": "fail", "nvidia_driver__answers": "fail"}, True),
        ({"nvidia_driver__versions": "fail"}, False),
        ({"docker__runs": "fail"}, False),
        ({"freeze__members": "fail"}, False),
        ({"server__reachable": "fail"}, False),
    ],
)
def test_a_set_is_accepted_with_a_sick_gpu_and_with_no_other_fault(
    after: dict[str, str], accepted: bool
) -> None:
    verdicts = seen(nvidia_driver__persistence="pass", **after)
    assert judgement.good(verdicts, judgement.acceptable(verdicts, [])) is accepted


def test_what_does_not_count_is_named_all_the_same() -> None:
    verdicts = seen(gpu__ecc="fail", gpu__count="fail")
    assert "gpu.ecc: gpu__ecc was seen" in judgement.remark(verdicts, ["gpu.ecc"])
    assert "gpu.count" not in judgement.remark(verdicts, ["gpu.ecc"])
    assert judgement.remark(verdicts, []) == ""


def test_what_two_looks_found_is_told_once() -> None:
    assert judgement.told(seen(gpu__xid="fail") * 2) == "gpu.xid: gpu__xid was seen"
