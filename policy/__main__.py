"""The pack as Pulumi starts it: `pulumi preview --policy-pack policy`.

Which rules there are, what configures them, and how hard they are.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from policy import rulings
from policy.rulings import DECLARATION, Resource, Rule, Schema

# One process serves one deployment, and judges its resources before the stack as a whole.
_not_evaluated: dict[str, str] = {}


def resource_policy(name: str, text: str, rule: Rule, schema: Schema | None = None) -> Any:
    """One rule as a mandatory policy; `schema` describes the keys of its configuration."""

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        config = args.get_config() or {}
        if unknown := sorted(set(config) - set(schema or {})):
            accepted = ", ".join(schema or {}) or "only enforcementLevel"
            key = f"{name}: unknown key {unknown[0]!r} in the configuration"
            report(f"{key}; accepted: {accepted}.", None)
            return
        protect = bool(args.opts.protect)
        ruling = rule(Resource(args.resource_type, args.name, args.props, protect=protect), config)
        if ruling is None:
            args.not_applicable()
        elif ruling.status == "broken":
            report(f"{ruling.rule}: {ruling.why}.", None)
        elif ruling.status == "not_evaluated":
            _not_evaluated[name] = ruling.why

    return ResourceValidationPolicy(
        name,
        text,
        validate,
        EnforcementLevel.MANDATORY,
        PolicyConfigSchema(schema) if schema else None,
    )


def every_rule_evaluated(args: StackValidationArgs, report: ReportViolation) -> None:
    """A rule that found nothing to judge is no rule kept."""
    if not any(resource.resource_type == DECLARATION for resource in args.resources):
        report(
            "SSH, GPUs, prices and labels could not be evaluated: nothing in this stack declares "
            "them (it is not gpuferry's own program).",
            None,
        )
    for name, why in _not_evaluated.items():
        report(f"{name} could not be evaluated: {why}.", None)


POLICIES = [
    *(resource_policy(*row) for row in rulings.RULES),
    StackValidationPolicy(
        rulings.EVERY_RULE_EVALUATED,
        "A rule that could not be evaluated says so",
        every_rule_evaluated,
        EnforcementLevel.ADVISORY,
    ),
]
PolicyPack("gpuferry", POLICIES)
