"""The action `driver_plan`: facts from the server, a decision here, a refusal before any change."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

# Ansible loads plugins by file; the decisions are the package's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gpuferry.driver import Facts, Plan, Wish, plan_driver
from gpuferry.driver.cuda import newest_native
from gpuferry.driver.plan import unasked
from gpuferry.driver.source import apt_source

# What apt's lists decide, which a bare server does not have yet.
_ABOUT_OFFERS = {"no_fabric_manager", "host_version_not_offered", "apt_cannot", "cuda_not_offered"}


class ActionModule(ActionBase):
    """Gather, plan, let apt try the very set that was decided, plan again.

    With `early` nothing is returned: it is there to refuse before the first change.
    """

    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        """Return `ansible_facts.driver_plan` and `.gpu`; fail where the plan is a refusal."""
        result = super().run(tmp, task_vars)
        wish = Wish.model_validate(self._task.args.get("wish") or {})
        # `ferry converge --disturb`, for this run only.
        if (task_vars or {}).get("ferry_disturb"):
            wish = wish.model_copy(update={"allow": [*wish.allow, "disturb"]})
        answer, plan = self._gather(task_vars, wish, [])
        # apt can only be asked once it has lists and knows the packages.
        sets: list[list[str]] = []
        while all(p.version for p in plan.packages) and (arguments := unasked(plan, sets)):
            sets.append(arguments)
            answer, plan = self._gather(task_vars, wish, sets)
        early = bool(self._task.args.get("early"))
        unknown = early and not answer.get("apt", {}).get("lists")
        if plan.refusal is not None and not (unknown and plan.refusal.reason in _ABOUT_OFFERS):
            options = " Or: ".join(f"{text[0].upper()}{text[1:]}." for text in plan.refusal.options)
            sentence = f"{plan.refusal.sentence[0].upper()}{plan.refusal.sentence[1:]}."
            return {**result, "failed": True, "msg": f"{sentence} {options}"}
        source = apt_source(Facts.model_validate(answer), plan)
        if source["problem"]:
            why = f"{source['problem'][0].upper()}{source['problem'][1:]}."
            return {**result, "failed": True, "msg": f"{why} Add them to the source by hand."}
        if early:
            return {**result, "changed": False}
        decided = {
            **plan.model_dump(mode="json"),
            "apt_source": source,
            "cuda_version": newest_native(plan.branch),
        }
        found = {"driver_plan": decided, "gpu": answer}
        return {**result, "changed": False, "ansible_facts": found}

    def _gather(
        self, task_vars: dict[str, Any] | None, wish: Wish, simulate: list[list[str]]
    ) -> tuple[dict[str, Any], Plan]:
        answer = self._execute_module(
            module_name="gpu_facts", module_args={"simulate": simulate}, task_vars=task_vars
        )
        if answer.get("failed"):
            return {}, Plan.model_validate(_unread(answer))
        facts = answer["ansible_facts"]["gpu"]
        return facts, plan_driver(Facts.model_validate(facts), wish)


def _unread(answer: dict[str, Any]) -> dict[str, Any]:
    text = str(answer.get("msg") or answer.get("module_stderr") or "no reason given")
    refusal = {
        "reason": "facts",
        "sentence": f"the facts could not be gathered: {text.strip().splitlines()[-1]}",
        "options": ["run again with the server reachable"],
    }
    return {"action": "refuse", "refusal": refusal}
