"""The driver plan, case by case: facts and a wish in, a decision or a refusal out."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuferry.driver import Facts, Plan, Wish, plan_driver
from gpuferry.driver.plan import unasked
from gpuferry.driver.verdicts import verdict_of
from gpuferry.verdict import worst_exit_code

FOLDER = Path(__file__).parent / "driver_cases"


@cache
def load(name: str) -> Any:
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text())


CASES = [
    case for name in ("gpus", "switches", "wishes", "machine", "present") for case in load(name)
]


def laid_over(under: Any, over: Any) -> Any:
    if isinstance(under, dict) and isinstance(over, dict):
        keys = under.keys() | over.keys()
        return {k: laid_over(under.get(k), over[k]) if k in over else under[k] for k in keys}
    return over


def facts_of(case: dict[str, Any]) -> Facts:
    names = case["base"] if isinstance(case["base"], list) else [case["base"]]
    raw: dict[str, Any] = {}
    for name in names:
        raw = laid_over(raw, load("bases")[name])
    raw["pci"] = [
        {"address": f"0000:{0x10 + n:02x}:00.0", "device": str(device)}
        for n, device in enumerate(case.get("gpus", []))
    ] + [
        {"address": f"0000:{0x80 + n:02x}:00.0", "device": str(device), "class": "068000"}
        for n, device in enumerate(case.get("switches", []))
    ]
    if case.get("headers"):
        raw["kernel"] = {**raw["kernel"], "headers_installed": True}
    raw = laid_over(raw, case.get("facts", {}))
    return Facts.model_validate({**raw, **case.get("replace", {})})


def plan_of(case: dict[str, Any]) -> Plan:
    facts, wish = facts_of(case), Wish.model_validate(case.get("wish", {}))
    plan = plan_driver(facts, wish)
    if "simulation" in case:
        # apt is asked about exactly the set that was decided, as `ferry plan driver` does.
        assert plan.refusal is None
        answer = {"arguments": [p.argument for p in plan.packages], **case["simulation"]}
        raw = {**facts.model_dump(by_alias=True), "simulations": [answer]}
        plan = plan_driver(Facts.model_validate(raw), wish)
    return plan


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    plan = plan_of(case)
    reason = plan.refusal.reason if plan.refusal else None
    assert reason == case.get("refused"), plan
    found = plan.model_dump()
    for key, value in case.get("expect", {}).items():
        assert found[key] == value, (key, found[key])
    names = [package.name for package in plan.packages]
    if "packages" in case:
        assert names == case["packages"]
    if "has" in case:
        assert any(f"{p.name} {p.version}".startswith(case["has"]) for p in plan.packages), names
    if "lacks" in case:
        assert not any(case["lacks"] in name for name in names)
    if "says" in case:
        assert case["says"] in plan.model_dump_json()


def test_there_are_enough_cases_and_each_has_its_own_name() -> None:
    assert len(CASES) >= 60
    assert len({case["name"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_whatever_the_facts_a_plan_keeps_its_promises(case: dict[str, Any]) -> None:
    plan = plan_of(case)
    names = [package.name for package in plan.packages]
    metapackages = {"cuda", "cuda-drivers", "nvidia-open", "nvidia-driver", "linux-headers-amd64"}
    if "kernel_change" not in case.get("wish", {}).get("allow", []):
        assert not metapackages & set(names)
    assert len(names) == len(set(names))
    if plan.refusal:
        assert plan.refusal.options
        assert not plan.packages
        assert "\n" not in plan.refusal.sentence
    else:
        assert plan.reasons
    verdict = verdict_of(plan, "gpu-1")
    assert (verdict.status == "refused") == (plan.action == "refuse")
    assert worst_exit_code([verdict]) == (0 if verdict.status == "pass" else 1)


def on_ubuntu(answers: list[dict[str, Any]]) -> Plan:
    facts = facts_of({"base": "ubuntu-24.04", "gpus": ["27b8"]})
    raw = {**facts.model_dump(by_alias=True), "simulations": answers}
    return plan_driver(Facts.model_validate(raw))


def test_apt_is_asked_about_each_set_once_and_the_first_that_it_can_install_is_taken() -> None:
    plan = on_ubuntu([])
    prebuilt = unasked(plan, [])
    assert any(word.startswith("linux-modules-nvidia-580-server-open-") for word in prebuilt)
    assert unasked(plan, [prebuilt]) == []

    failed = {"arguments": prebuilt, "state": "failed", "problem": "unmet dependencies"}
    plan = on_ubuntu([failed])
    built_here = unasked(plan, [prebuilt])
    assert any(word.startswith("nvidia-dkms-580-server-open=") for word in built_here)

    plan = on_ubuntu([failed, {"arguments": built_here}])
    assert plan.simulated_by_apt
    assert unasked(plan, []) == []
    assert [p.argument for p in plan.packages] == built_here

    plan = on_ubuntu([failed, {**failed, "arguments": built_here, "problem": "a broken mirror"}])
    assert plan.refusal is not None
    assert "a broken mirror" in plan.refusal.sentence
